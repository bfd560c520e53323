import { isNetworkError } from "../../shared/unreachable.ts";

/**
 * The kind of a database error. `engine`: the server or the network failed, whatever the request; `taken`: a unique key
 * exists; `wordless`: a message is complete and its words are missing; `data`: the request itself is invalid.
 */
export type ServerFault = "engine" | "taken" | "wordless" | "data";

/** https://www.postgresql.org/docs/current/errcodes-appendix.html; the first two characters are the class. */
const UNIQUE_VIOLATION = "23505";
/** Raised by `write_messages` of migrations/postgres. */
const WORDS_WANTED = "IL001";
const READ_ONLY_TRANSACTION = "25006";
/** A prepared statement is invalid: the schema changed, or a pooler moved the connection to another server. */
const STALE_STATEMENTS = ["26000", "0A000"];
const INVALID_PASSWORD = ["28P01", "28000"];
const NO_SUCH_DATABASE = "3D000";
const UNDEFINED_TABLE = "42P01";
/** Every statement fits the store's schema and its owner: other ones are at the node's address. */
const OTHER_SCHEMA = [UNDEFINED_TABLE, "42703", "42883", "42501", "3F000"];
const LOCK_NOT_AVAILABLE = "55P03";
const DISK_FULL = "53100";
const INTERNAL_ERROR = "XX000";
/** The server does not translate this message. */
const NO_INIT_FILE = "could not write init file";
/** The server starts, stops or recovers. */
const CANNOT_CONNECT_NOW = "57P03";

const ENGINE_CLASSES = new Set([
  "08", // connection exceptions
  "28", // the password was changed
  "3D", // the database was dropped
  "40", // rolled back: deadlock, serialization
  "53", // no room for more connections, memory or disk
  "55", // a lock was not to be had in time
  "57", // cancelled, shut down, starting up
  "58", // the system below: I/O
  "F0", // its configuration
  "XX", // its own faults, corruption
]);
const ENGINE = new Set([READ_ONLY_TRANSACTION, ...STALE_STATEMENTS, ...OTHER_SCHEMA]);

/** The statement failed and the connection is still usable. */
const CANCELLED = "57014";
const HARMLESS_CLASSES = new Set(["40", "53", "55"]);

/** The kind of an error; errors without an SQLSTATE are `engine`. */
export function serverFaultOf(error: unknown): ServerFault {
  const state = sqlStateOf(error);
  // The driver or the network failed, or the server went away.
  if (state === undefined) return "engine";
  if (state === UNIQUE_VIOLATION) return "taken";
  if (state === WORDS_WANTED) return "wordless";
  return ENGINE.has(state) || ENGINE_CLASSES.has(state.slice(0, 2)) ? "engine" : "data";
}

/** Whether the connection should not be used after this error. */
export function isConnectionDoubtful(error: unknown): boolean {
  const state = sqlStateOf(error);
  if (state === undefined) return true;
  return serverFaultOf(error) === "engine" && state !== CANCELLED && !HARMLESS_CLASSES.has(state.slice(0, 2));
}

/** The server refuses the user or the password, or the driver has none. */
export function isRefusedUser(error: unknown): boolean {
  return INVALID_PASSWORD.includes(sqlStateOf(error) ?? "") || /^SASL\b/.test((error as Error).message);
}

export const isNoDatabase = (error: unknown): boolean => sqlStateOf(error) === NO_SUCH_DATABASE;
export const isNoTable = (error: unknown): boolean => sqlStateOf(error) === UNDEFINED_TABLE;
/** There is no room for what the statement writes. The server still answers, and others may find room. */
export const isDiskFull = (error: unknown): boolean => sqlStateOf(error) === DISK_FULL;
/**
 * There is no room for what the server writes for a new connection. Older releases give this failure no code of its
 * own.
 */
export const hasNoRoomToConnect = (error: unknown): boolean =>
  isDiskFull(error) || (sqlStateOf(error) === INTERNAL_ERROR && (error as Error).message === NO_INIT_FILE);
export const isLockTimeout = (error: unknown): boolean => sqlStateOf(error) === LOCK_NOT_AVAILABLE;
/** No connection was made, and one may be made later. The driver's own errors, such as its time limit, have no code. */
export function isPassing(error: unknown): boolean {
  if (isNetworkError(error) || sqlStateOf(error) === CANNOT_CONNECT_NOW) return true;
  return error instanceof Error && /^(timeout expired|Connection terminated)/.test(error.message);
}
export const isServerAnswer = (error: unknown): boolean => sqlStateOf(error) !== undefined;

/** The error's message alone. The driver attaches row values and the connection's settings to its errors. */
export function plainError(error: unknown): Error {
  return new Error(reasonOf(error));
}

/** Why a connection or statement failed, as text for the log. */
export function reasonOf(error: unknown): string {
  const { message, code } = error as { message?: string; code?: string };
  // Several addresses were tried. Each has its own error.
  const reasons = error instanceof AggregateError ? error.errors.map(({ message: each }: Error) => each) : [message];
  const text = reasons.filter(Boolean).join("; ") || "no reason given";
  return code === undefined || text.includes(code) ? text : `${text} (${code})`;
}

/** SQLSTATE codes have five characters, unlike the codes of the driver and the network. */
function sqlStateOf(error: unknown): string | undefined {
  const { code, severity } = error as { code?: unknown; severity?: unknown };
  return severity !== undefined && typeof code === "string" ? code : undefined;
}
