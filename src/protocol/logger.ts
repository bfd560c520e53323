/** The part of a pino logger that the rooms use; facts first, then a sentence. */
export interface Logger {
  debug(facts: object, message: string): void;
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}

/** A logger that says these facts with every line; those of the line itself win. */
export const withFacts = (log: Logger, facts: object): Logger => ({
  debug: (more, message) => log.debug({ ...facts, ...more }, message),
  info: (more, message) => log.info({ ...facts, ...more }, message),
  warn: (more, message) => log.warn({ ...facts, ...more }, message),
  error: (more, message) => log.error({ ...facts, ...more }, message),
});
