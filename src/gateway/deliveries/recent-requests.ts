// Rule C32 of docs/inside/correctness.md.
import { hash } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { unfinishedRuns } from "../../actors/session/listed-runs.ts";
import type { Bus } from "../../bus/bus.ts";
import type { Reply } from "../../protocol/internal/reply.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import { TransientMap } from "../../shared/transient-map.ts";
import type { NewReceipt, Store } from "../../store/store.ts";
import type { Caller } from "../access/caller.ts";
import { networkOf } from "../http/network-address.ts";
import { afterNextPoll } from "../http/sockets/stand-still.ts";
import { peerKeyOf, type Unanswered } from "../streams/silent-peers.ts";
import { Delivery, type DeliveryState } from "./delivery.ts";
import { NewsTopic } from "./news-topic.ts";

/** How long a request whose answer was lost may be sent again, in ms. */
export const LOST_MS = 30_000;
/** The same if it is unknown whether the answer arrived: until the second try of a client that repeats. */
const DOUBT_MS = 5_000;
/** How much of a request's name is part of its key: enough that no two requests have the same. */
const NAME_LENGTH = 22;
/** How long before its death a node may have committed what it had not answered yet, in ms. */
const UNDER_WAY_MS = 100;
/** Sessions whose runs are compared with older requests. */
const MAX_UNFINISHED = 1_000;
/** Different requests that are remembered, and equal ones. */
const MAX_REQUESTS = 4_096;
const MAX_EQUAL = 8;
/** How old a look at the kernel's tables of sockets may be, in ms: bytes are sent again after 200 ms or later. */
const LOOK_MS = 1_000;
/** How long another node may take to say how an answer stands, in ms. One that does not is dead. */
const ASK_MS = 250;

const STATES = ["open", "sent", "arrived", "lost", "doubtful"] as const satisfies DeliveryState[];
const News = z.object({
  key: z.string(),
  commandId: z.string(),
  /** Absent: the node that answers this request is asked how the answer stands. */
  state: z.enum(STATES).optional(),
});
type News = z.infer<typeof News>;

/** A request without a key, and its answer. */
interface Attempt {
  commandId: string;
  state: DeliveryState;
  /** Since when, in ms. */
  since: number;
  /** The answer, if this node gives it. */
  delivery?: Delivery | undefined;
  /** Called when another node tells of the answer. */
  onNews?: (() => void) | undefined;
  /** It is older than this node, and no other node has said yet how its answer stands. */
  isOlder?: boolean | undefined;
}

/** The equal requests of one client. */
interface Equal {
  attempts: Attempt[];
}

/** What is known of a request before it is carried out. */
interface AskedRequest {
  caller: Caller;
  commandId: string;
  bodyHash: string;
  mayBeRepeat: boolean;
}

export interface RecentRequestsOptions {
  bus: Bus;
  /** It measures elapsed time, and never jumps. */
  clock: Clock;
  /** The store's name, which separates the topics of installations. */
  epoch: string;
  store: Pick<Store, "newestReceipts" | "newestTime" | "listRuns">;
  /** The time of receipts, in ms. */
  time: () => number;
  /** The peers that have not acknowledged anything. Absent: this system does not tell. */
  unanswered?: (() => Promise<Unanswered>) | undefined;
}

/**
 * Recognises a request that is sent again without a key because its answer did not arrive. It gets the key of the
 * first one, and with it the first one's effect and answer. Nodes tell each other over the bus how their answers stand.
 * A node that begins again finds the former requests by their receipts, whose keys end with the names of requests.
 */
export class RecentRequests {
  readonly #options: RecentRequestsOptions;
  readonly #topic: NewsTopic<News>;
  readonly #known = new TransientMap<string, Equal>();
  /** The keys of the known requests; the next one takes the place of the oldest. */
  readonly #keys: string[] = [];
  #next = 0;
  /** The last look at the peers that acknowledge nothing. */
  #look: { at: number; silent: Promise<Unanswered> } | undefined;
  /** When this node began, by the clock of elapsed time and by that of receipts. */
  readonly #startedAt: number;
  readonly #startedOn: number;
  #older: Promise<void> | undefined;

  constructor(options: RecentRequestsOptions) {
    this.#options = options;
    const { bus, epoch, clock } = options;
    const receive = (news: News) => this.#receive(news);
    this.#topic = new NewsTopic({ bus, topic: `${epoch}.answers`, schema: News, clock, receive });
    this.#startedAt = options.clock.now();
    this.#startedOn = options.time();
    // If the store cannot be read now, the next request tries again.
    this.#findOlder().catch(() => {});
  }

  /**
   * @param identity of a request without a key
   * @returns the identity to use: the first request's, if this one repeats it
   */
  async identify<T extends AskedRequest>(identity: T, request: FastifyRequest): Promise<T> {
    const { key, isMarked } = nameOf(identity, request);
    // Every write without a key comes this way, so nothing is awaited that there is no reason to wait for.
    if (this.#isYoung) await this.#findOlder();
    // A request that is repeated because its node died may overtake the last news of that node.
    if (this.#topic.isHeard) await this.#topic.catchUp();
    const equal = this.#known.get(key);
    const before = equal && (await this.#findLost(key, equal.attempts, isMarked));
    const attempt = before ?? this.#add(key, `${identity.commandId}.${key}`);
    const { commandId } = attempt;
    this.#note(key, attempt, "open");
    const delivery = new Delivery(this.#options.clock, (state) => {
      // A repeat may have taken the place of this request.
      if (attempt.delivery === delivery) this.#note(key, attempt, state);
    });
    attempt.delivery = delivery;
    request.delivery = delivery;
    delivery.watch(request.response, request.headers);
    return { ...identity, commandId, mayBeRepeat: before !== undefined };
  }

  close(): void {
    this.#topic.close();
  }

  /** Whether requests from before this node began may still be repeated. */
  get #isYoung(): boolean {
    return this.#options.clock.now() - this.#startedAt <= LOST_MS;
  }

  /** Find the requests from before this node began. How their answers stand died with the process that gave them. */
  async #findOlder(): Promise<void> {
    this.#older ??= this.#readOlder().catch((error) => {
      this.#older = undefined;
      throw error;
    });
    await this.#older;
  }

  async #readOlder(): Promise<void> {
    const { store, bus } = this.#options;
    const receipts = await store.newestReceipts(this.#startedOn - LOST_MS, MAX_REQUESTS);
    if (receipts.length === 0) return;
    const underWaySince = (await store.newestTime()) - UNDER_WAY_MS;
    const { sessions } = await store.listRuns({ kind: "unfinished", limit: MAX_UNFINISHED });
    const runs = sessions.flatMap(({ session, memory }) => unfinishedRuns(session, memory));
    const unfinished = new Set<string | undefined>(runs.map(({ id }) => id));
    const oldestFirst = receipts.toReversed();
    /** Who sends a floor another command has the answer to the one before. */
    const lastOf = new Map(oldestFirst.map((each) => [senderOf(each), each.commandId]));
    for (const { commandId, at, reply, ...sender } of oldestFirst) {
      if (commandId.at(-1 - NAME_LENGTH) !== ".") continue;
      const key = commandId.slice(-NAME_LENGTH);
      if (this.#known.get(key)?.attempts.some((each) => each.commandId === commandId)) continue;
      const isLast = lastOf.get(senderOf(sender)) === commandId;
      const { runId } = JSON.parse(reply) as Reply & { ok: true };
      // The answer to a request whose run has ended was given when the run began, or when it ended.
      const isUnderWay = runId === undefined ? isLast && at >= underWaySince : unfinished.has(runId);
      const state: DeliveryState = isUnderWay ? "doubtful" : "arrived";
      Object.assign(this.#add(key, commandId), { state, since: this.#startedAt, isOlder: !bus.isLocal });
    }
  }

  /** The request that this one repeats. */
  async #findLost(key: string, attempts: readonly Attempt[], isMarked: boolean): Promise<Attempt | undefined> {
    await Promise.all(attempts.filter(({ isOlder }) => isOlder).map((each) => this.#ask(key, each)));
    const lost = this.#findLostOf(attempts);
    if (lost) return lost;
    if (isMarked) {
      const last = attempts.findLast((each) => each.state === "open" || this.#ageOf(each) <= LOST_MS);
      if (last) return last;
    }
    if (!attempts.some(({ state }) => state === "open" || state === "sent")) return undefined;
    // The end of the first connection may lie unread beside this request.
    await new Promise<void>((resolve) => afterNextPoll(resolve));
    for (const { delivery } of attempts) delivery?.look();
    await this.#loseUnanswered(key, attempts);
    await Promise.all(attempts.map((each) => this.#ask(key, each)));
    return this.#findLostOf(attempts);
  }

  /** The oldest that is lost, so that of several each is repeated; else the newest that may be. */
  #findLostOf(attempts: readonly Attempt[]): Attempt | undefined {
    return (
      attempts.find((each) => each.state === "lost" && this.#ageOf(each) <= LOST_MS) ??
      attempts.findLast((each) => each.state === "doubtful" && this.#ageOf(each) <= DOUBT_MS)
    );
  }

  #ageOf({ since }: Attempt): number {
    return this.#options.clock.now() - since;
  }

  /** Answers that the system has, and whose peers have vanished. */
  async #loseUnanswered(key: string, attempts: readonly Attempt[]): Promise<void> {
    const { unanswered, clock } = this.#options;
    const sent = attempts.filter((each) => each.delivery?.peer && this.#ageOf(each) <= LOST_MS);
    if (!unanswered || sent.length === 0) return;
    const now = clock.now();
    if (!this.#look || now - this.#look.at >= LOOK_MS) this.#look = { at: now, silent: unanswered() };
    const silent = await this.#look.silent;
    for (const attempt of sent) {
      const peer = attempt.delivery?.peer;
      if (peer && silent.has(peerKeyOf(peer))) this.#note(key, attempt, "lost");
    }
  }

  /** Ask the node that gives the answer how it stands. */
  async #ask(key: string, attempt: Attempt): Promise<void> {
    const { clock } = this.#options;
    const { commandId, state } = attempt;
    const isUnknown = state === "open" || state === "sent" || attempt.isOlder;
    if (attempt.delivery || !isUnknown || this.#topic.isAway) return;
    const heard = Promise.withResolvers<boolean>();
    attempt.onNews = () => heard.resolve(true);
    const timer = clock.after(ASK_MS, () => heard.resolve(false));
    this.#topic.publish({ key, commandId });
    const isAlive = await heard.promise;
    timer.cancel();
    attempt.onNews = undefined;
    attempt.isOlder = false;
    if (!isAlive && attempt.state === "open") this.#note(key, attempt, "lost");
  }

  #add(key: string, commandId: string): Attempt {
    const attempt: Attempt = { commandId, state: "open", since: 0 };
    const equal = this.#known.get(key);
    if (equal) {
      equal.attempts.push(attempt);
      if (equal.attempts.length > MAX_EQUAL) equal.attempts.shift();
      return attempt;
    }
    const oldest = this.#keys[this.#next];
    if (oldest !== undefined) this.#known.delete(oldest);
    this.#keys[this.#next] = key;
    this.#next = (this.#next + 1) % MAX_REQUESTS;
    this.#known.set(key, { attempts: [attempt] });
    return attempt;
  }

  #note(key: string, attempt: Attempt, state: DeliveryState): void {
    attempt.state = state;
    attempt.since = this.#options.clock.now();
    const news = { key, commandId: attempt.commandId, state };
    // Other nodes know of a request before its command is on its way, and of a lost answer before this node may die.
    if (state === "sent" || state === "arrived") this.#topic.publishSoon(news);
    else this.#topic.publish(news);
  }

  #receive({ key, commandId, state }: News): void {
    const known = this.#known.get(key)?.attempts.find((each) => each.commandId === commandId);
    if (state === undefined) {
      // The end of the connection may lie unread beside this message.
      if (known?.delivery) {
        afterNextPoll(() => {
          known.delivery?.look();
          this.#topic.publish({ key, commandId, state: known.state });
        });
      }
      return;
    }
    const attempt = known ?? this.#add(key, commandId);
    // The answer is given there.
    attempt.delivery = undefined;
    attempt.state = state;
    attempt.since = this.#options.clock.now();
    attempt.onNews?.();
  }
}

const senderOf = ({ caller, floorId }: Pick<NewReceipt, "caller" | "floorId">): string => `${floorId} ${caller}`;

/** A client's own name for a request, by which it may be repeated. */
const ownNameOf = ({ headers }: FastifyRequest): string | undefined => {
  const name = headers["request-id"];
  return typeof name === "string" && name !== "" ? name : undefined;
};

/** The name of equal requests of a client, and whether the client says that it may repeat them. */
function nameOf({ caller, bodyHash }: AskedRequest, request: FastifyRequest): { key: string; isMarked: boolean } {
  const { headers } = request;
  const own = ownNameOf(request);
  // Two programs of one caller may send equal requests. The network and the user agent distinguish them.
  const client = own ?? [networkOf(request.ip), headers["user-agent"]];
  const about: unknown[] = [];
  for (const name in headers) if (name.startsWith("interlock-")) about.push([name, headers[name]]);
  const key = hash("sha256", JSON.stringify([caller.id, client, about, bodyHash]), "base64url").slice(0, NAME_LENGTH);
  return { key, isMarked: own !== undefined || Number(headers["x-stainless-retry-count"] ?? 0) > 0 };
}
