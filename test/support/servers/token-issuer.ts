import { type CryptoKey, exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from "jose";
import { json, SmallServer } from "./small-server.ts";

type Claims = JWTPayload & Record<string, unknown>;
interface SigningKey {
  /** Absent for a key that is published without an id. */
  kid?: string;
  alg: string;
  privateKey: CryptoKey;
  publicJwk: JWK;
}

export const nowS = () => Math.floor(Date.now() / 1_000);

/** A token signed with a secret. `exp` is in an hour, unless the claims say otherwise; null leaves it out. */
export function signWithSecret(secret: string | Uint8Array, claims: Claims, alg = "HS256"): Promise<string> {
  return sign(claims, { alg }, typeof secret === "string" ? new TextEncoder().encode(secret) : secret);
}

/** An identity provider: it signs tokens, and publishes the keys that verify them. */
export class TokenIssuer {
  /** The published keys. */
  published: JWK[] = [];
  /** Whether requests for the keys fail. */
  isDown = false;
  /** Answers to requests for the keys that begin meanwhile are sent after this, with the keys of when they began. */
  delay: Promise<void> | undefined;
  readonly #server: SmallServer;
  #made = 0;

  private constructor(server: SmallServer) {
    this.#server = server;
  }

  static async start(): Promise<TokenIssuer> {
    const server = await SmallServer.start(async (response, request) => {
      const answer = issuer.isDown ? json({ error: "down" }, 500) : json({ keys: issuer.published });
      await issuer.delay;
      return answer(response, request);
    });
    const issuer = new TokenIssuer(server);
    return issuer;
  }

  get url(): string {
    return `${this.#server.url}/keys`;
  }

  /** How often the keys were requested. */
  get fetches(): number {
    return this.#server.heard.length;
  }

  whenFetched(times: number): Promise<void> {
    return this.#server.whenReceived(times);
  }

  /** A key that is not published yet. */
  async makeKey(alg = "ES256"): Promise<SigningKey & { kid: string }> {
    this.#made += 1;
    const kid = `key-${this.#made}`;
    return { ...(await this.makeKeyNamed(kid, alg)), kid };
  }

  /** The same, with this id, or with none. */
  async makeKeyNamed(kid: string | undefined, alg = "ES256"): Promise<SigningKey> {
    const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
    const name = kid !== undefined && { kid };
    return { ...name, alg, privateKey, publicJwk: { ...(await exportJWK(publicKey)), ...name, alg, use: "sig" } };
  }

  /** Publish exactly these keys. */
  publish(...keys: SigningKey[]): void {
    this.published = keys.map(({ publicJwk }) => publicJwk);
  }

  sign({ kid, alg, privateKey }: SigningKey, claims: Claims): Promise<string> {
    return sign(claims, { alg, ...(kid !== undefined && { kid }) }, privateKey);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server[Symbol.asyncDispose]();
  }
}

function sign(claims: Claims, header: { alg: string; kid?: string }, key: CryptoKey | Uint8Array): Promise<string> {
  const { exp = nowS() + 3_600, ...rest } = claims;
  return new SignJWT({ ...rest, ...(exp !== null && { exp }) } as JWTPayload).setProtectedHeader(header).sign(key);
}

/** A token assembled by hand, whose signature may be invalid. */
export function forge(header: object, claims: object, signature = ""): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  return `${part(header)}.${part(claims)}.${signature}`;
}
