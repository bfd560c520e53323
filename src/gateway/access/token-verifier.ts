import type { JWTPayload, JWTVerifyOptions } from "jose";
import type { AuthSetting } from "../../config/auth-setting.ts";
import { readBounded, whyUnreadable } from "../../config/bounded-file.ts";
import { AppError } from "../../protocol/errors.ts";
import { Name } from "../../protocol/ids.ts";
import { KeySet } from "./key-set.ts";
import type { Verified, Verifier, VerifierOptions } from "./verifier.ts";

type TokenSetting = Exclude<AuthSetting, "none" | { kind: "keys" }>;
type Jose = typeof import("jose");

/** The keys that tokens are verified with. */
interface Keys {
  /**
   * The only accepted algorithms. A token's header chooses among these, and never between symmetric and public keys.
   */
  algorithms: string[];
  /** Undefined if no key verifies the token's signature; other faults of the token are errors of jose. */
  verify(token: string, options: JWTVerifyOptions): Promise<{ payload: JWTPayload; keyId?: string } | undefined>;
  isWithdrawn(keyId: string): boolean;
  isPublished(keyId: string): Promise<boolean>;
  close(): void;
}

/** Tolerated difference between clocks, in s. */
const SKEW_S = 10;
/** A shorter HS256 secret can be guessed from one token. */
const MIN_SECRET_BYTES = 32;
const MAX_SECRET_BYTES = 4_096;
/** The last instant that a `Date` can hold, in ms. A token may claim any number, even one that overflows in ms. */
const END_OF_TIME_MS = 8_640_000_000_000_000;
/** The value in a token's `scope` or `scp` that makes its bearer an operator. */
const OPERATOR = "operator";

/**
 * `jwt:…`: signed tokens. The `sub` claim is the owner; the `exp` claim is required.
 *
 * @throws Error, with a sentence for the operator, if the secret cannot be used
 */
export async function openTokenVerifier(setting: TokenSetting, options: VerifierOptions): Promise<Verifier> {
  // Loaded only when tokens are configured.
  const jose = await import("jose");
  const keys =
    setting.kind === "secret"
      ? secretKeys(await readSecret(setting.file), jose)
      : await KeySet.open(setting.url, jose, options);
  return new TokenVerifier(jose, keys, options);
}

const secretKeys = (secret: Uint8Array, { jwtVerify }: Jose): Keys => ({
  algorithms: ["HS256"],
  verify: (token, options) => jwtVerify(token, secret, options),
  isWithdrawn: () => false,
  isPublished: async () => true,
  close() {},
});

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
    const { payload, keyId } = await this.#read(token);
    const ownerId = Name.safeParse(payload.sub);
    if (!ownerId.success) throw new AppError("unauthorized", "The token's sub is not a valid name.");
    const { clock, wallNow } = this.#options;
    const aheadMs = clock.now() - wallNow();
    return {
      ownerId: ownerId.data,
      isOperator: scopesOf(payload).includes(OPERATOR),
      expiresAt: Math.min(Math.ceil((payload.exp! + SKEW_S) * 1_000) + aheadMs, END_OF_TIME_MS),
      keyId,
    };
  }

  isWithdrawn(keyId: string): boolean {
    return this.#keys.isWithdrawn(keyId);
  }

  isPublished(keyId: string): Promise<boolean> {
    return this.#keys.isPublished(keyId);
  }

  close(): void {
    this.#keys.close();
  }

  async #read(token: string): Promise<{ payload: JWTPayload; keyId?: string }> {
    const { issuer, audience, wallNow } = this.#options;
    const { algorithms } = this.#keys;
    const options: JWTVerifyOptions = {
      algorithms,
      requiredClaims: ["sub", "exp"],
      clockTolerance: SKEW_S,
      currentDate: new Date(wallNow()),
      ...(issuer !== undefined && { issuer }),
      ...(audience !== undefined && { audience }),
    };
    const { errors } = this.#jose;
    try {
      const verified = await this.#keys.verify(token, options);
      if (!verified) throw new errors.JWSSignatureVerificationFailed();
      return verified;
    } catch (error) {
      if (error instanceof AppError) throw error;
      // The cause stays on the server, because it holds the token's claims.
      const text = error instanceof errors.JWTExpired ? "The token has expired." : "The token is not accepted.";
      throw new AppError("unauthorized", text);
    }
  }
}

/** Both forms are in use: words in one string (RFC 8693), or a list. */
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
  // Editors and `echo` add a line break at the end that is not part of the secret.
  const length = bytes.length - (/\r?\n$/.exec(bytes.toString("latin1"))?.[0].length ?? 0);
  const fault =
    length < MIN_SECRET_BYTES
      ? `it has ${length} bytes; HS256 needs at least ${MIN_SECRET_BYTES}`
      : length > MAX_SECRET_BYTES && `it is larger than ${MAX_SECRET_BYTES} bytes`;
  if (fault) throw new Error(`the secret that tokens are signed with cannot be used: ${path}: ${fault}`);
  return bytes.subarray(0, length);
}
