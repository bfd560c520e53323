/** The subset of a pino logger that this project uses: structured fields first, then a message. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** A logger that adds these fields to every line. Fields of the line itself take precedence. */
export const withFields = (log: Logger, fields: object): Logger => ({
  debug: (more, message) => log.debug({ ...fields, ...more }, message),
  info: (more, message) => log.info({ ...fields, ...more }, message),
  warn: (more, message) => log.warn({ ...fields, ...more }, message),
  error: (more, message) => log.error({ ...fields, ...more }, message),
});
