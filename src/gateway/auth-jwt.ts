import type { JWTPayload, JWTVerifyGetKey, JWTVerifyOptions } from "jose";
import type { AuthSetting } from "../config/auth.ts";
import { readBounded, whyUnreadable } from "../config/bounded-file.ts";
import { AppError } from "../protocol/errors.ts";
import { Name } from "../protocol/ids.ts";
import { openKeySet } from "./key-set.ts";
import type { Verified, Verifier, VerifierOptions } from "./verified.ts";

type TokenSetting = Exclude<AuthSetting, "none" | { kind: "keys" }>;
type Jose = typeof import("jose");

/** What tokens are checked with. */
interface Keys {
  /** The only algorithms that count: what a token says of itself chooses among these, and never between kinds of keys. */
  algorithms: string[];
  find: Uint8Array | JWTVerifyGetKey;
  close(): void;
}

/** Clocks of other machines may differ by this, in s. */
const SKEW_S = 10;
/** Those of published keys. No shared secret among them: who has the public key could make tokens with it. */
const PUBLIC_ALGORITHMS = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
];
/** HS256 with less can be guessed from one token. */
const MIN_SECRET_BYTES = 32;
const MAX_SECRET_BYTES = 4_096;
/** What a token's `scope` or `scp` names for its bearer to be an operator. */
const OPERATOR = "operator";

/**
 * `jwt:…`: signed tokens. Their `sub` is the owner, and they must have an `exp`.
 *
 * @throws Error with a sentence for the operator when the secret cannot be used
 */
export async function openTokenVerifier(setting: TokenSetting, options: VerifierOptions): Promise<Verifier> {
  // Loaded only where there are tokens.
  const jose = await import("jose");
  const keys =
    setting.kind === "secret"
      ? { algorithms: ["HS256"], find: await readSecret(setting.file), close() {} }
      : { algorithms: PUBLIC_ALGORITHMS, ...openKeySet(setting.url, jose, options) };
  return new TokenVerifier(jose, keys, options);
}

class TokenVerifier implements Verifier {
  readonly #jose: Jose;
  readonly #keys: Keys;
  readonly #options: VerifierOptions;

  constructor(jose: Jose, keys: Keys, options: VerifierOptions) {
    this.#jose = jose;
    this.#keys = keys;
    this.#options = options;
  }

  async verify(token: string): Promise<Verified> {
    const payload = await this.#read(token);
    const ownerId = Name.safeParse(payload.sub);
    if (!ownerId.success) throw new AppError("unauthorized", "The token's sub is no name.");
    return {
      ownerId: ownerId.data,
      isOperator: scopesOf(payload).includes(OPERATOR),
      expiresAt: (payload.exp! + SKEW_S) * 1_000,
    };
  }

  close(): void {
    this.#keys.close();
  }

  async #read(token: string): Promise<JWTPayload> {
    const { issuer, audience, clock } = this.#options;
    const { algorithms, find } = this.#keys;
    const options: JWTVerifyOptions = {
      algorithms,
      requiredClaims: ["sub", "exp"],
      clockTolerance: SKEW_S,
      currentDate: new Date(clock.now()),
      ...(issuer !== undefined && { issuer }),
      ...(audience !== undefined && { audience }),
    };
    const { jwtVerify, errors } = this.#jose;
    try {
      const { payload } =
        find instanceof Uint8Array ? await jwtVerify(token, find, options) : await jwtVerify(token, find, options);
      return payload;
    } catch (error) {
      if (error instanceof AppError) throw error;
      // Its cause stays here: it has the token's claims.
      const text = error instanceof errors.JWTExpired ? "The token has expired." : "The token is not accepted.";
      throw new AppError("unauthorized", text);
    }
  }
}

/** Both are in use: words in one text (RFC 8693), or a list. */
function scopesOf({ scope, scp }: JWTPayload): unknown[] {
  return [scope, scp].flatMap((scopes) =>
    typeof scopes === "string" ? scopes.split(" ") : Array.isArray(scopes) ? scopes : [],
  );
}

async function readSecret(path: string): Promise<Uint8Array> {
  let bytes: Buffer;
  try {
    bytes = await readBounded(path, MAX_SECRET_BYTES);
  } catch (error) {
    throw new Error(`the secret that tokens are signed with cannot be used: ${path}: ${whyUnreadable(error)}`);
  }
  // Editors and `echo` put a line break at the end, which nobody means.
  const length = bytes.length - (/\r?\n$/.exec(bytes.toString("latin1"))?.[0].length ?? 0);
  const fault =
    length < MIN_SECRET_BYTES
      ? `it has ${length} bytes; HS256 needs at least ${MIN_SECRET_BYTES}`
      : length > MAX_SECRET_BYTES && `it is larger than ${MAX_SECRET_BYTES} bytes`;
  if (fault) throw new Error(`the secret that tokens are signed with cannot be used: ${path}: ${fault}`);
  return bytes.subarray(0, length);
}
