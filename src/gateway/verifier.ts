import type { AuthSetting } from "../config/auth.ts";
import { loadKeys } from "../config/keys-file.ts";
import { openTokenVerifier } from "./auth-jwt.ts";
import { KeyVerifier } from "./auth-keys.ts";
import type { Verifier, VerifierOptions } from "./verified.ts";

/** @throws Error with a sentence for the operator: the file cannot be used */
export async function openVerifier(setting: Exclude<AuthSetting, "none">, options: VerifierOptions): Promise<Verifier> {
  return setting.kind === "keys" ? new KeyVerifier(await loadKeys(setting.file)) : openTokenVerifier(setting, options);
}
