import { createHash } from "node:crypto";
import type { Webhook } from "../config/webhooks-file.ts";
import type { DisabledHook } from "../store/store.ts";

/** Which receiver a hook has: a hash of its address, which may have a secret in it. */
export const receiverOf = ({ url }: Webhook): string => createHash("sha256").update(url.href).digest("base64url");

/** Since when a hook is disabled, in the floors' time; undefined if it is not. */
export function disabledSince(hook: Webhook, disabled: readonly DisabledHook[]): number | undefined {
  const receiver = receiverOf(hook);
  return disabled.find((each) => each.hook === hook.name && each.receiver === receiver)?.at;
}
