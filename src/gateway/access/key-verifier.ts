import { createHash, createHmac, hash, randomBytes, timingSafeEqual } from "node:crypto";
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
  readonly #keyIds = new Set<string>();

  constructor(entries: readonly KeyEntry[]) {
    for (const entry of entries) {
      const { owner, operator, sha256 } = entry;
      const digest = Buffer.from(sha256, "hex");
      const keyId = keyIdOf(entry);
      this.#entries.set(this.#keyOf(digest), { digest, verified: { ownerId: owner, isOperator: operator, keyId } });
      this.#keyIds.add(keyId);
    }
  }

  async verify(token: string): Promise<Verified> {
    const digest = createHash("sha256").update(token).digest();
    const entry = this.#entries.get(this.#keyOf(digest));
    if (!entry || !timingSafeEqual(entry.digest, digest)) {
      throw new AppError("unauthorized", "This server does not know the key.");
    }
    return entry.verified;
  }

  /** The file is read once. */
  isWithdrawn(): boolean {
    return false;
  }

  /** A ticket may come from a node that was started with an older file. */
  async isPublished(keyId: string): Promise<boolean> {
    return this.#keyIds.has(keyId);
  }

  close(): void {}

  #keyOf(digest: Buffer): string {
    return createHmac("sha256", this.#secret).update(digest).digest("base64");
  }
}

/** Names an entry of the file with all that it grants, so that a key whose owner or role has changed is another one. */
const keyIdOf = ({ owner, operator, sha256 }: KeyEntry): string =>
  hash("sha256", JSON.stringify([owner, operator, sha256]), "base64url");
