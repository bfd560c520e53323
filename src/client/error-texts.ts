import { ERRORS, type ErrorCode } from "../protocol/errors.ts";

/** Each code of the server with its text, the message of a failure of which it says no more. */
export const errorTexts = (): [code: ErrorCode, text: string][] =>
  Object.entries(ERRORS).map(([code, { text }]) => [code as ErrorCode, text]);
