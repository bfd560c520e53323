import type { ClientErrorCode } from "../../src/client/client-error.ts";
import { errorTexts } from "../../src/client/error-texts.ts";

/** A sentence for each code of an error. */
export type ErrorWords = Readonly<Record<`error.${ClientErrorCode}`, string>>;

/** In English the server's own sentences. */
export const errorsEn = {
  ...Object.fromEntries(errorTexts().map(([code, text]) => [`error.${code}`, text])),
  "error.unreachable": "The server does not answer.",
  "error.unexpected_answer": "The answer is not one of this server's.",
} as ErrorWords;
