import { hash, randomUUID } from "node:crypto";
import { z } from "zod";
import type { Bus, Subscription } from "../bus/bus.ts";
import type { Identity } from "../gateway/idempotent-commands.ts";
import { keepListening } from "../gateway/streams/keep-listening.ts";
import { readMessage, writeMessage } from "../protocol/internal/bus-message.ts";
import type { Clock, Timer } from "../shared/ports/clock.ts";
import { RecentMap } from "../shared/recent-map.ts";

/** How long a request without a whole answer may be repeated, in ms: the tries of common clients lie within it. */
const WINDOW_MS = 10_000;
/** The requests that are remembered: more than a node begins in that time. */
const MAX_REQUESTS = 4_096;
/** How often a node announces to the others the answers that are under way, in ms. */
const ANNOUNCE_MS = 5_000;
/** An answer that its node has not announced for this long is no longer under way there, in ms. */
const SILENT_MS = 15_000;
/** Answers in one message: with 200 bytes each it stays within the largest message of the bus. */
const MAX_ANNOUNCED = 256;

const ENDS = ["whole", "failed", "left", "unknown"] as const;
/** How an answer ended: its client has all of it, or it failed, or the client left, or the outcome is not known. */
export type AnswerEnd = (typeof ENDS)[number];

/** An answer of another node. `end` absent: it is under way. */
const AnswerNews = z.object({ key: z.string(), commandId: z.string(), end: z.enum(ENDS).optional() });
type AnswerNews = z.infer<typeof AnswerNews>;
const News = z.object({ from: z.string(), answers: z.array(AnswerNews).max(MAX_ANNOUNCED) });

interface Known {
  commandId: string;
  /** Absent: the answer is under way. */
  end?: { how: Exclude<AnswerEnd, "whole">; at: number };
  /** When another node announced it last; absent: this node answers. */
  announcedAt?: number;
}

export interface RepeatedRequestsOptions {
  bus: Bus;
  /** It measures elapsed time, and never jumps. */
  clock: Clock;
  /** The store's name, which separates the topics of installations. */
  epoch: string;
}

/**
 * Recognises requests that a client repeats by itself without a key, because an answer failed or did not arrive. Such a
 * request gets the key of the first one, and with it the run of the first one. Nodes announce their answers over the
 * bus, so that a repeat may reach any of them; the announcements are lost while the bus is away.
 */
export class RepeatedRequests {
  readonly #options: RepeatedRequestsOptions;
  /** Names this node in its messages. */
  readonly #id = randomUUID();
  readonly #topic: string;
  readonly #known = new RecentMap<string, Known>(MAX_REQUESTS);
  /** The answers that are under way here, with their commands. */
  readonly #open = new Map<string, string>();
  #timer: Timer | undefined;
  #subscription: Subscription | undefined;
  #isClosed = false;

  constructor(options: RepeatedRequestsOptions) {
    this.#options = options;
    this.#topic = `${options.epoch}.answers`;
    if (!options.bus.isLocal) void this.#listen();
  }

  /**
   * @param session the session that the client names. Requests without one count as repeats only if the client says so,
   *   or if
   * the outcome of the first one is not known: two clients may ask the same
   * @param isRetry whether the client says that it repeats a request
   * @returns the identity to use, and a function to call at the end of the answer
   */
  admit(
    identity: Identity,
    { session, isRetry }: { session: string | undefined; isRetry: boolean },
  ): { identity: Identity; end: (how: AnswerEnd) => void } {
    if (identity.isKeyed) return { identity, end() {} };
    const key = hash("sha256", JSON.stringify([identity.caller.id, session, identity.bodyHash]), "base64url");
    const before = this.#known.get(key);
    const isRepeat = before && this.#mayJoin(before, session !== undefined, isRetry);
    const { commandId } = isRepeat ? before : identity;
    if (!isRepeat) {
      this.#known.set(key, { commandId });
      this.#open.set(key, commandId);
      this.#announce([{ key, commandId }]);
      this.#timer ??= this.#options.clock.after(ANNOUNCE_MS, () => this.#announceOpen());
    }
    const end = (how: AnswerEnd) => {
      if (this.#open.get(key) === commandId) this.#open.delete(key);
      if (this.#known.get(key)?.commandId !== commandId) return;
      this.#end(key, commandId, how);
      this.#announce([{ key, commandId, end: how }]);
    };
    return { identity: isRepeat ? { ...identity, commandId, isKeyed: true } : identity, end };
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
    this.#subscription?.end();
  }

  #end(key: string, commandId: string, how: AnswerEnd): void {
    if (how === "whole") this.#known.delete(key);
    else this.#known.set(key, { commandId, end: { how, at: this.#options.clock.now() } });
  }

  #mayJoin({ end, announcedAt }: Known, isNamed: boolean, isRetry: boolean): boolean {
    const now = this.#options.clock.now();
    if (!end) return (isNamed || isRetry) && (announcedAt === undefined || now - announcedAt <= SILENT_MS);
    if (now - end.at > WINDOW_MS) return false;
    if (end.how === "unknown") return true;
    // A client that left by itself may want another answer.
    return isRetry || (isNamed && end.how === "failed");
  }

  async #listen(): Promise<void> {
    const subscription = await keepListening(
      this.#options.bus,
      this.#topic,
      (message) => this.#receive(message),
      () => {},
    );
    this.#subscription = subscription;
    if (this.#isClosed) subscription.end();
  }

  #receive(message: Uint8Array): void {
    const news = readMessage(News, message);
    if (!news || news.from === this.#id) return;
    const announcedAt = this.#options.clock.now();
    for (const { key, commandId, end } of news.answers) {
      if (end === undefined) this.#known.set(key, { commandId, announcedAt });
      else if (this.#known.get(key)?.commandId === commandId) this.#end(key, commandId, end);
      // A repeat has the answer elsewhere: nothing is announced of the first one any longer.
      if (end !== undefined && this.#open.get(key) === commandId) this.#open.delete(key);
    }
  }

  #announceOpen(): void {
    this.#timer = undefined;
    const open = Array.from(this.#open, ([key, commandId]): AnswerNews => ({ key, commandId }));
    for (let from = 0; from < open.length; from += MAX_ANNOUNCED)
      this.#announce(open.slice(from, from + MAX_ANNOUNCED));
    if (open.length > 0) this.#timer = this.#options.clock.after(ANNOUNCE_MS, () => this.#announceOpen());
  }

  #announce(answers: AnswerNews[]): void {
    const { bus } = this.#options;
    if (bus.isLocal) return;
    void bus.publish(this.#topic, writeMessage({ from: this.#id, answers } satisfies z.infer<typeof News>));
  }
}
