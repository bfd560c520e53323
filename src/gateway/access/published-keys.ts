import { createPublicKey, hash, type JsonWebKey } from "node:crypto";
import type { CryptoKey, JSONWebKeySet, JWK, JWTPayload, JWTVerifyGetKey, JWTVerifyOptions } from "jose";

type Jose = typeof import("jose");

/** A token that a published key verified. */
export interface VerifiedToken {
  payload: JWTPayload;
  keyId: string;
}

/**
 * A token can match this many published keys, more than a provider publishes without ids. Each costs a verification.
 */
const MAX_CANDIDATES = 16;

/**
 * The keys of one set, as an identity provider published them together. A key is recognised by the hash of its public
 * key: the provider may publish keys without ids, or another key under the id of a former one. Where the token names
 * the id of its key, that id counts too, because the provider may publish the key under another one.
 */
export class PublishedKeys {
  readonly #jose: Jose;
  readonly #keys: { digest: string; find: JWTVerifyGetKey }[] = [];
  readonly #ids = new Set<string>();

  constructor({ keys }: JSONWebKeySet, jose: Jose) {
    this.#jose = jose;
    for (const jwk of keys) {
      const digest = digestOf(jwk);
      if (digest === undefined) continue;
      this.#keys.push({ digest, find: jose.createLocalJWKSet({ keys: [jwk] }) });
      this.#ids.add(idOf(digest, undefined)).add(idOf(digest, jwk.kid));
    }
  }

  has(keyId: string): boolean {
    return this.#ids.has(keyId);
  }

  /** Whether these keys include all of the former ones. */
  includes(former: PublishedKeys): boolean {
    return [...former.#ids].every((id) => this.#ids.has(id));
  }

  /**
   * The content of a token; undefined if none of the keys verifies its signature.
   *
   * @throws errors of jose, for a malformed token, another algorithm, or claims that are not accepted
   */
  async verify(token: string, options: JWTVerifyOptions): Promise<VerifiedToken | undefined> {
    const { decodeProtectedHeader, errors, jwtVerify } = this.#jose;
    const { alg, kid } = decodeProtectedHeader(token);
    if (alg === undefined || !options.algorithms?.includes(alg)) throw new errors.JOSEAlgNotAllowed();
    let candidates = 0;
    for (const { digest, find } of this.#keys) {
      const key = await usable(find, { alg, ...(kid !== undefined && { kid }) });
      if (!key) continue;
      candidates += 1;
      if (candidates > MAX_CANDIDATES) return undefined;
      try {
        const { payload } = await jwtVerify(token, key, options);
        return { payload, keyId: idOf(digest, kid) };
      } catch (error) {
        // Other errors are about the key, such as one that is too short.
        if (error instanceof errors.JOSEError && !(error instanceof errors.JWSSignatureVerificationFailed)) throw error;
      }
    }
    return undefined;
  }
}

/** Undefined for a key that is for other tokens, or that is invalid. */
async function usable(find: JWTVerifyGetKey, header: { alg: string; kid?: string }): Promise<CryptoKey | undefined> {
  try {
    return (await find(header, { payload: "", signature: "" })) as CryptoKey;
  } catch {
    return undefined;
  }
}

const idOf = (digest: string, kid: string | undefined): string => (kid === undefined ? digest : `${digest}.${kid}`);

/** The same for each form in which a key can be written; undefined for a key that verifies no signatures. */
function digestOf(jwk: JWK): string | undefined {
  if (jwk.use !== undefined && jwk.use !== "sig") return undefined;
  try {
    const key = createPublicKey({ key: jwk as JsonWebKey, format: "jwk" });
    return hash("sha256", key.export({ type: "spki", format: "der" }), "base64url");
  } catch {
    return undefined;
  }
}
