import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { KeyEntry } from "../config/keys-file.ts";
import { AppError } from "../protocol/errors.ts";
import type { Verified, Verifier } from "./verified.ts";

/**
 * `keys:<file>`: keys that stand in a file as hashes, and count until they are taken out of it and the node is started
 * again.
 */
export class KeyVerifier implements Verifier {
  /**
   * Where a hash is looked for tells nothing of it: entries stand under a second hash, made with a secret of this
   * process, so that nobody can come closer to one step by step.
   */
  readonly #secret = randomBytes(32);
  readonly #entries = new Map<string, { digest: Buffer; verified: Verified }>();

  constructor(entries: readonly KeyEntry[]) {
    for (const { owner, operator, sha256 } of entries) {
      const digest = Buffer.from(sha256, "hex");
      this.#entries.set(this.#placeOf(digest), { digest, verified: { ownerId: owner, isOperator: operator } });
    }
  }

  async verify(token: string): Promise<Verified> {
    const digest = createHash("sha256").update(token).digest();
    const entry = this.#entries.get(this.#placeOf(digest));
    if (!entry || !timingSafeEqual(entry.digest, digest)) {
      throw new AppError("unauthorized", "The key is not accepted.");
    }
    return entry.verified;
  }

  close(): void {}

  #placeOf(digest: Buffer): string {
    return createHmac("sha256", this.#secret).update(digest).digest("base64");
  }
}
