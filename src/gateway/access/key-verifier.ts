import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { KeyEntry } from "../../config/keys-file.ts";
import { AppError } from "../../protocol/errors.ts";
import type { Verified, Verifier } from "./verifier.ts";

/**
 * `keys:<file>`: API keys, of which the file holds the hashes. A key is valid until it is removed from the file and the
 * node restarts.
 */
export class KeyVerifier implements Verifier {
  /**
   * Entries are looked up by an HMAC of the hash, keyed with a secret of this process. Timing differences of the lookup
   * therefore reveal nothing about the hashes.
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

  /** The file is read once. */
  isWithdrawn(): boolean {
    return false;
  }

  async isPublished(): Promise<boolean> {
    return true;
  }

  close(): void {}

  #placeOf(digest: Buffer): string {
    return createHmac("sha256", this.#secret).update(digest).digest("base64");
  }
}
