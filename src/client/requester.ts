import { backoffMs, type Delay, delay } from "./backoff.ts";
import { ClientError, failureOf, unexpectedAnswer, unreachable } from "./client-error.ts";

/** Headers for every request, or where they come from: a token that runs out is asked for each time. */
export type HeaderSource = Record<string, string> | (() => Record<string, string> | Promise<Record<string, string>>);

export interface ClientOptions {
  /** Where the server answers, `http://127.0.0.1:3000` say. A path in it stays in front of every route. */
  baseUrl: string;
  fetch?: typeof globalThis.fetch | undefined;
  headers?: HeaderSource | undefined;
  /** One try of a request may take so long, in ms; default 15 000, three times what the server takes at most. */
  timeoutMs?: number | undefined;
  /** 0 to 1; spreads repeats. */
  random?: (() => number) | undefined;
  delay?: Delay | undefined;
  /** Makes idempotency keys: 1 to 128 visible characters, never the same twice. */
  newKey?: (() => string) | undefined;
}

export interface ReadOptions {
  signal?: AbortSignal | undefined;
}

export interface WriteOptions extends ReadOptions {
  /** Default: a new one. The same key with the same request has one effect, however often it is sent. */
  idempotencyKey?: string | undefined;
}

export interface Request extends WriteOptions {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Its pieces, as they are. */
  path: readonly string[];
  query?: object | undefined;
  body?: object | undefined;
  /** A status that answers too, beside 200. */
  accepts?: number;
}

/** What a stream comes back with, as a request does. */
interface StreamingParts {
  fetch: typeof globalThis.fetch;
  random: () => number;
  delay: Delay;
}

/** A request is sent so often at most; its last failure is thrown. */
const MAX_TRIES = 5;
const BETWEEN_TRIES = { firstMs: 200, maxMs: 5_000 };
/** A server that asks for more patience than this is told to the caller at once. */
const MAX_RETRY_AFTER_MS = 10_000;
const TIMEOUT_MS = 15_000;

/**
 * Requests and their answers. A write carries its key, and is repeated with it for as long as its outcome is unknown
 * or put off, within a bound; a read is repeated likewise.
 */
export class Requester {
  readonly #base: string;
  readonly #options: Omit<ClientOptions, "baseUrl" | "fetch" | "random" | "delay"> & StreamingParts;

  /** @throws TypeError for a `baseUrl` that is no address */
  constructor({ baseUrl, ...options }: ClientOptions) {
    const url = URL.parse(baseUrl);
    if (!url || !/^https?:$/.test(url.protocol) || url.search !== "" || url.hash !== "") {
      throw new TypeError(`baseUrl must be an address with http or https, without query: ${baseUrl}`);
    }
    this.#base = url.href.replace(/\/+$/, "");
    this.#options = {
      ...options,
      // Not the function itself: browsers refuse a fetch that is called on anything but the window.
      fetch: options.fetch ?? ((input, init) => globalThis.fetch(input, init)),
      random: options.random ?? Math.random,
      delay: options.delay ?? delay,
    };
  }

  get streaming(): StreamingParts & Pick<ClientOptions, "headers"> {
    const { fetch, random, delay, headers } = this.#options;
    return { fetch, random, delay, headers };
  }

  /**
   * The whole address of a route; what has no value is left out of the query, a list stands there entry by entry.
   * @throws ClientError `bad_request` for an id that is none
   */
  urlOf(path: readonly string[], query: object = {}): string {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      for (const each of [value ?? []].flat()) search.append(name, String(each));
    }
    return `${this.#base}/${path.map(segment).join("/")}${search.size > 0 ? `?${search}` : ""}`;
  }

  /** @throws ClientError; or the signal's reason, once it is aborted */
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

  async #send<T>(request: Request, read: (response: Response) => Promise<T>): Promise<T> {
    const { random, delay, newKey = randomKey } = this.#options;
    const key = request.method === "GET" ? undefined : (request.idempotencyKey ?? newKey());
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#try(request, key, read);
      } catch (error) {
        if (!(error instanceof ClientError) || !error.wantsRepeat) throw error;
        if (key !== undefined) error.facts.commandId = key;
        const { retryAfterMs = 0 } = error;
        if (tries === MAX_TRIES || retryAfterMs > MAX_RETRY_AFTER_MS) throw error;
        await delay(Math.max(retryAfterMs, backoffMs(tries, BETWEEN_TRIES, random)), request.signal);
      }
    }
  }

  async #try<T>(request: Request, key: string | undefined, read: (response: Response) => Promise<T>): Promise<T> {
    const { method, path, query, body, signal, accepts } = request;
    signal?.throwIfAborted();
    const url = this.urlOf(path, query);
    const { fetch, headers, timeoutMs = TIMEOUT_MS } = this.#options;
    const given = typeof headers === "function" ? await headers() : headers;
    const timeout = AbortSignal.timeout(timeoutMs);
    const hasBody = method !== "GET" && method !== "DELETE";
    try {
      const response = await fetch(url, {
        method,
        headers: {
          ...given,
          ...(hasBody && { "content-type": "application/json" }),
          ...(key !== undefined && { "idempotency-key": key }),
        },
        ...(hasBody && { body: JSON.stringify(body ?? {}) }),
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      });
      if (!response.ok && response.status !== accepts) throw await failureOf(response);
      return await read(response);
    } catch (error) {
      if (error instanceof ClientError) throw error;
      signal?.throwIfAborted();
      throw unreachable(url, error);
    }
  }
}

/** 128 random bits. Not `randomUUID`: browsers have that on secure pages only. */
function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A piece of a path. What an address would read as a step up, or as nothing, never was an id. */
function segment(id: string): string {
  if (/^\.{0,2}$/.test(id)) {
    throw new ClientError("bad_request", `"${id}" is no id.`, { status: 0, retryable: false });
  }
  return encodeURIComponent(id);
}
