import { backoffMs, raceAborted } from "../shared/waiting.ts";
import { ClientError, failureOf, unexpectedAnswer, unreachable } from "./client-error.ts";
import { type Delay, delay } from "./delay.ts";
import { SignInGate } from "./sign-in-gate.ts";

/**
 * Headers for every request, or a function that returns them, which runs for each request because a token may expire.
 */
export type HeaderSource = Record<string, string> | (() => Record<string, string> | Promise<Record<string, string>>);

export interface ClientOptions {
  /** The server's address, for example `http://127.0.0.1:3000`. A path in it is prefixed to every route. */
  baseUrl: string;
  fetch?: typeof globalThis.fetch | undefined;
  headers?: HeaderSource | undefined;
  /**
   * How streams authenticate. `ticket`: with a ticket from `POST /ticket` for each connection, so that the token is in
   * no stream's request and a cross-origin page needs no preflight. Default: with the headers.
   */
  streamsBy?: "headers" | "ticket" | undefined;
  /** Timeout of one attempt, in ms. Default: 15 000, three times the server's own limit. */
  timeoutMs?: number | undefined;
  /**
   * How long a write is repeated while the server is away, in ms, also beyond five attempts. Default: 0. Each attempt
   * has the same key, so the write takes effect once.
   */
  patienceMs?: number | undefined;
  /**
   * For pages that sign in with a cookie: called after a 401, once for all requests and streams. When it resolves, they
   * are sent again, writes with their keys; until then nothing is sent. It rejects where another user signed in: then
   * what waits fails, and is not sent. Default: a 401 is thrown.
   */
  signInAgain?: (() => Promise<void>) | undefined;
  /** A random number from 0 to 1. Spreads repeats. */
  random?: (() => number) | undefined;
  delay?: Delay | undefined;
  /** Makes idempotency keys: 1 to 128 visible characters, each unique. */
  newKey?: (() => string) | undefined;
}

export interface ReadOptions {
  signal?: AbortSignal | undefined;
}

export interface WriteOptions extends ReadOptions {
  /**
   * The idempotency key. Default: a new one. The same request with the same key has one effect, however often it is
   * sent.
   */
  idempotencyKey?: string | undefined;
}

export interface CommandOptions extends WriteOptions {
  /**
   * The `seq` of the session's newest event that was seen, from an event or by `seqOf(answer.position)`: with a newer
   * one nothing changes, and `stale` is thrown, with `facts.session` and `facts.seq` as they are now.
   */
  ifSeq?: number | undefined;
}

export interface Request extends WriteOptions {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** The segments of the path, unencoded. */
  path: readonly string[];
  query?: object | undefined;
  body?: object | undefined;
  /** Content of another type than JSON, in place of a body. */
  content?: { type: string; data: string | Blob } | undefined;
  /** The request may take minutes, because a history is copied. */
  isLong?: boolean;
  /** The request is the sign-in itself: its 401 is thrown. */
  isSignIn?: boolean;
  /** Additional headers, which override the client's. */
  headers?: Record<string, string> | undefined;
  /** A status besides 200 that counts as success. */
  accepts?: number;
}

/** The options of a stream, which reconnects like a request is repeated. */
interface StreamingParts {
  fetch: typeof globalThis.fetch;
  random: () => number;
  delay: Delay;
}

/** Attempts of a request, unless its client is patient. The last failure is thrown. */
const MAX_REQUEST_TRIES = 5;
const BETWEEN_TRIES = { firstMs: 200, maxMs: 5_000 };
/** If the server requests a longer delay than this, the failure is thrown at once, in ms. */
const MAX_RETRY_AFTER_MS = 10_000;
const TIMEOUT_MS = 15_000;
/** The same for a request whose history may be long, in ms. */
const LONG_TIMEOUT_MS = 600_000;

/**
 * Sends requests and parses their answers. A write carries its idempotency key and is repeated with it, within a limit,
 * while its outcome is unknown or deferred. A read is repeated likewise.
 */
export class Requester {
  readonly #base: string;
  readonly #gate: SignInGate | undefined;
  readonly #options: Omit<ClientOptions, "baseUrl" | "fetch" | "random" | "delay"> & StreamingParts;

  /** @throws TypeError if `baseUrl` is not a valid address */
  constructor({ baseUrl, ...options }: ClientOptions) {
    if (!/^https?:[^?#]+$/i.test(baseUrl)) {
      throw new TypeError(`baseUrl must be an address with http or https, without query: ${baseUrl}`);
    }
    this.#base = new URL(baseUrl).href.replace(/\/+$/, "");
    this.#gate = options.signInAgain && new SignInGate(options.signInAgain);
    this.#options = {
      ...options,
      // Wrapped, because browsers refuse a `fetch` that is called on any object but the window.
      fetch: options.fetch ?? ((input, init) => globalThis.fetch(input, init)),
      random: options.random ?? Math.random,
      delay: options.delay ?? delay,
    };
  }

  get streaming(): StreamingParts & Pick<ClientOptions, "headers"> & { gate: SignInGate | undefined } {
    const { fetch, random, delay, headers } = this.#options;
    return { fetch, random, delay, headers, gate: this.#gate };
  }

  /**
   * The full address of a route. Parameters without a value are left out; a list is repeated for each of its entries.
   * @throws ClientError `bad_request` for an invalid id
   */
  urlOf(path: readonly string[], query: object = {}): string {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      for (const each of [value ?? []].flat()) search.append(name, String(each));
    }
    return `${this.#base}/${path.map(segment).join("/")}${search.size > 0 ? `?${search}` : ""}`;
  }

  /** @throws ClientError; the signal's reason, if it is aborted */
  async json<T>(request: Request): Promise<T> {
    const response = await this.#send(request, async (response) => {
      try {
        return { body: JSON.parse(await response.text()) as unknown };
      } catch (error) {
        if (error instanceof SyntaxError) throw unexpectedAnswer(response.status);
        throw error;
      }
    });
    if (typeof response.body !== "object" || response.body === null) throw unexpectedAnswer(200);
    return response.body as T;
  }

  /** @throws like `json` */
  text(request: Request): Promise<string> {
    return this.#send(request, (response) => response.text());
  }

  /** @throws like `json` */
  blob(request: Request): Promise<Blob> {
    return this.#send(request, (response) => response.blob());
  }

  /** Send a request, and repeat it with the same key while its failure may pass. */
  async #send<T>(request: Request, read: (response: Response) => Promise<T>): Promise<T> {
    const { delay, newKey = randomKey, patienceMs = 0 } = this.#options;
    // Elapsed time: a head unit may learn the time of day meanwhile.
    const begunAt = performance.now();
    const key = request.method === "GET" ? undefined : (request.idempotencyKey ?? newKey());
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#trySignedIn(request, key, read);
      } catch (error) {
        request.signal?.throwIfAborted();
        const failure = failureToRepeat(error, key);
        const isPatient = key !== undefined && performance.now() - begunAt < patienceMs;
        if (tries >= MAX_REQUEST_TRIES && !isPatient) throw failure;
        await delay(this.#pauseMs(failure, tries), request.signal);
      }
    }
  }

  /**
   * How long to wait before the next try, in ms.
   * @throws ClientError the failure itself, if the node asks for a longer wait than a caller can be kept for
   */
  #pauseMs(failure: ClientError, tries: number): number {
    const { retryAfterMs = 0 } = failure;
    if (retryAfterMs > MAX_RETRY_AFTER_MS) throw failure;
    return Math.max(retryAfterMs, backoffMs(tries, BETWEEN_TRIES, this.#options.random));
  }

  #trySignedIn<T>(request: Request, key: string | undefined, read: (response: Response) => Promise<T>): Promise<T> {
    const attempt = () => this.#try(request, key, read);
    return this.#gate && !request.isSignIn ? this.#gate.pass(attempt, request.signal) : attempt();
  }

  async #try<T>(request: Request, key: string | undefined, read: (response: Response) => Promise<T>): Promise<T> {
    const { path, query, signal, accepts, isLong } = request;
    signal?.throwIfAborted();
    const url = this.urlOf(path, query);
    const { fetch, headers, timeoutMs = TIMEOUT_MS } = this.#options;
    const timeout = AbortSignal.timeout(isLong ? LONG_TIMEOUT_MS : timeoutMs);
    const either = signal ? AbortSignal.any([signal, timeout]) : timeout;
    const ownHeaders = await awaitedHeaders(headers, url, either);
    try {
      const response = await fetch(url, { ...contentOf(request, key, ownHeaders), signal: either });
      if (!response.ok && response.status !== accepts) throw await failureOf(response);
      return await read(response);
    } catch (error) {
      throw error instanceof ClientError ? error : unreachable(url, error);
    }
  }
}

/**
 * The headers of one request.
 * @throws what the function throws; ClientError `unreachable` if the signal aborts first
 */
export const awaitedHeaders = (source: HeaderSource | undefined, url: string, signal: AbortSignal) =>
  raceAborted(signal, async () => (typeof source === "function" ? source() : source)).catch((error) => {
    throw signal.aborted ? unreachable(url, error) : error;
  });

/** A failure that may pass, with the key to repeat. @throws every other error */
function failureToRepeat(error: unknown, key: string | undefined): ClientError {
  if (!(error instanceof ClientError) || !error.wantsRepeat) throw error;
  if (key !== undefined) error.facts.commandId = key;
  return error;
}

/** @param ownHeaders the headers of every request of this client */
function contentOf(
  { method, headers, body, content }: Request,
  key: string | undefined,
  ownHeaders: Record<string, string> | undefined,
): Pick<RequestInit, "method" | "headers" | "body"> {
  // Without a body a DELETE means the same as with an empty one.
  const hasBody = method !== "GET" && (method !== "DELETE" || body !== undefined);
  const { type, data } = content ?? { type: "application/json", data: JSON.stringify(body ?? {}) };
  return {
    method,
    headers: {
      ...ownHeaders,
      ...headers,
      ...(hasBody && { "content-type": type }),
      ...(key !== undefined && { "idempotency-key": key }),
    },
    ...(hasBody && { body: data }),
  };
}

/** 128 random bits. `randomUUID` exists on secure pages only. */
function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A segment of a path. An empty segment or a dot segment cannot be an id. */
function segment(id: string): string {
  if (/^\.{0,2}$/.test(id)) {
    throw new ClientError("bad_request", `"${id}" is not a valid id.`, { status: 0, retryable: false });
  }
  return encodeURIComponent(id);
}
