import { lookup as lookUp } from "node:dns";
import { Agent, type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps, Agent as SecureAgent } from "node:https";
import { isIP } from "node:net";
import type { Webhook } from "../config/webhooks-file.ts";
import type { Clock } from "../shared/ports/clock.ts";
import { createAddressCheck, guardLookup } from "../system/public-address.ts";
import { type SentMessage, signedHeaders } from "./signature.ts";

/** The status by which a receiver asks to be sent nothing more, as Standard Webhooks defines it. */
export const GONE = 410;
/** Bytes of an answer that are read, and thrown away, so that its connection can be used again. */
const MAX_ANSWER_BYTES = 65_536;
const MAX_HEADER_BYTES = 16_384;
/** How long the rest of an answer may take, in ms. Then its connection is closed. */
const REST_MS = 1_000;
/** Connections to one receiver: those of answers whose rest has not come are among them. */
const MAX_SOCKETS = 16;
/** How long an unused connection stays open, in ms. */
const IDLE_MS = 10_000;
const MS = 1_000;

/** How a receiver answered. */
export type SendResult =
  | { isAccepted: true; status: number }
  | { isAccepted: false; reason: string; status?: number | undefined; retryAfterMs?: number | undefined };

export interface SenderOptions {
  clock: Clock;
  /** The wall clock, in ms since 1970. */
  wallNow: () => number;
  /** Default: the system's resolver. */
  lookup?: typeof lookUp;
}

const isPublic = createAddressCheck([]);

/** The address is not public. */
class PrivateAddress extends Error {}

const refusalOf = (host: string) =>
  new PrivateAddress(`${host} is not a public address, and private_addresses is not set`);

/** Sends messages to the receiver of one hook, over few connections that stay open. */
export class Sender {
  readonly #hook: Webhook;
  readonly #options: SenderOptions;
  readonly #agent: Agent;

  constructor(hook: Webhook, options: SenderOptions) {
    this.#hook = hook;
    this.#options = options;
    const settings = { keepAlive: true, timeout: IDLE_MS, maxSockets: MAX_SOCKETS };
    this.#agent = hook.url.protocol === "https:" ? new SecureAgent(settings) : new Agent(settings);
  }

  /** Never rejects. The answer's status decides, and its body is not read; a redirect is not followed. */
  async send(message: SentMessage, stopping: AbortSignal): Promise<SendResult> {
    const { clock } = this.#options;
    const { timeoutMs } = this.#hook;
    const over = new AbortController();
    const timer = clock.after(timeoutMs, () => over.abort());
    const signal = AbortSignal.any([over.signal, stopping]);
    try {
      return resultOf(await this.#post(message, signal));
    } catch (error) {
      if (over.signal.aborted) return { isAccepted: false, reason: `no answer within ${timeoutMs / MS} s` };
      const { code, message: text } = error as NodeJS.ErrnoException;
      return { isAccepted: false, reason: error instanceof PrivateAddress ? text : (code ?? text).slice(0, 256) };
    } finally {
      timer.cancel();
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  async #post(message: SentMessage, signal: AbortSignal): Promise<IncomingMessage> {
    for (;;) {
      const { promise, isReused } = this.#request(message, signal);
      try {
        return await promise;
      } catch (error) {
        // The receiver closed an unused connection at the moment when it was used again.
        const { code } = error as NodeJS.ErrnoException;
        if (!isReused() || (code !== "ECONNRESET" && code !== "EPIPE")) throw error;
      }
    }
  }

  #request({ id, payload }: SentMessage, signal: AbortSignal) {
    const { url, keys, mayBePrivate } = this.#hook;
    const { clock, wallNow, lookup = lookUp } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const host = url.hostname.replace(/^\[|\]$/g, "");
    if (!mayBePrivate && isIP(host) !== 0 && !isPublic(host)) throw refusalOf(host);
    const body = Buffer.from(payload);
    const request = (url.protocol === "https:" ? requestHttps : requestHttp)(url, {
      method: "POST",
      signal,
      agent: this.#agent,
      maxHeaderSize: MAX_HEADER_BYTES,
      ...(!mayBePrivate && { lookup: guardLookup(isPublic, lookup, refusalOf) }),
      headers: {
        "content-type": "application/json",
        "content-length": body.length,
        "user-agent": "interlock",
        ...signedHeaders({ id, payload }, keys, wallNow()),
      },
    });
    request.once("response", (response) => {
      throwAway(response, clock);
      resolve(response);
    });
    request.once("error", reject);
    // Node.js gives the socket away: neither an answer nor an error follows.
    request.once("upgrade", (_, socket) => {
      socket.destroy();
      reject(new Error("the receiver answers with another protocol"));
    });
    request.end(body);
    return { promise, isReused: () => request.reusedSocket };
  }
}

/** Read an answer to its end, so that its connection is free again. A long one is cut off with its connection. */
function throwAway(response: IncomingMessage, clock: Clock): void {
  let bytes = 0;
  const late = clock.after(REST_MS, () => response.destroy());
  response.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) response.destroy();
  });
  // Its status has counted.
  response.on("error", () => {});
  response.once("close", () => late.cancel());
}

function resultOf({ statusCode: status = 0, headers }: IncomingMessage): SendResult {
  if (status >= 200 && status < 300) return { isAccepted: true, status };
  const reason = `status ${status}${meaningOf(status)}`;
  const seconds = headers["retry-after"];
  const retryAfterMs = seconds !== undefined && /^\d{1,6}$/.test(seconds) ? Number(seconds) * MS : undefined;
  return { isAccepted: false, reason, status, retryAfterMs };
}

function meaningOf(status: number): string {
  if (status >= 300 && status < 400) return ", a redirect, which is not followed";
  return status === GONE ? ": the receiver is gone" : "";
}
