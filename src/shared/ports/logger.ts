/** The subset of a pino logger that this project uses: structured facts first, then a message. */
export interface Logger {
  debug(facts: object, message: string): void;
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}

/** A logger that adds these facts to every line. Facts of the line itself take precedence. */
export const withFacts = (log: Logger, facts: object): Logger => ({
  debug: (more, message) => log.debug({ ...facts, ...more }, message),
  info: (more, message) => log.info({ ...facts, ...more }, message),
  warn: (more, message) => log.warn({ ...facts, ...more }, message),
  error: (more, message) => log.error({ ...facts, ...more }, message),
});
