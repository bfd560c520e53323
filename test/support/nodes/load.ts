import { expect } from "vitest";
import { type Client, createClient } from "../../../src/client/client.ts";
import { ClientError } from "../../../src/client/client-error.ts";
import { Chance } from "../runner/chance.ts";
import { PATIENCE_MS } from "../runner/patience.ts";
import type { ChildServer } from "./child-server.ts";
import type { Cluster } from "./cluster.ts";

const LOOK_MS = 200;

/** A request, its key and its outcome. */
interface TrackedRequest {
  kind: "create" | "chat" | "rename" | "pause" | "resume" | "archive";
  sessionId: string;
  key: string;
  /** Undefined while the outcome is unknown. */
  outcome?: Outcome;
}

type Outcome = { ok: true; answer: { session?: { id: string }; runId?: string } } | { ok: false; refusal: unknown };

const saying = (word: string) => ({ kind: "scripted", replies: [{ say: [word, word, word], delay: "10ms" }] });

/** Agents that take some 30 ms to answer, and may interrupt one another. */
export const LOAD_CATALOG = {
  agents: [
    { name: "singer", priority: 50, when_busy: "enqueue", adapter: saying("la ") },
    { name: "dancer", priority: 50, when_busy: "interrupt", adapter: { ...saying("step "), yields: "abort" } },
  ],
  policy: { ties: "newest" },
};

/**
 * The project's own client behind a load balancer that sends each try to the next node, even if the node is down.
 * @param onFailure called with the reason of every failed try
 */
export function clientOf(nodes: () => readonly ChildServer[], onFailure: (why: string) => void = () => {}): Client {
  let tries = 0;
  return createClient({
    baseUrl: "http://cluster",
    fetch: async (input, init) => {
      const { pathname, search } = new URL(String(input));
      const all = nodes();
      try {
        const response = await fetch(`${all[tries++ % all.length]!.url}${pathname}${search}`, init);
        if (response.status >= 500) onFailure(await response.clone().text());
        return response;
      } catch (error) {
        onFailure(String(error));
        throw error;
      }
    },
  });
}

/** A user's client that sends one request after the other, and repeats a request until its outcome is known. */
export class LoadClient {
  readonly name: string;
  readonly userId: string;
  readonly tracked: TrackedRequest[] = [];
  readonly #chance: Chance;
  readonly #client: Client;
  #sessionId: string | undefined;

  constructor(name: string, userId: string, chance: Chance, client: Client) {
    this.name = name;
    this.userId = userId;
    this.#chance = chance;
    this.#client = client;
  }

  /** Send the next request, or repeat the last one. */
  async step(): Promise<TrackedRequest> {
    const last = this.tracked.at(-1);
    const request = last && !last.outcome ? last : this.#next();
    if (request !== last) this.tracked.push(request);
    const outcome = await this.ask(request);
    if (outcome) request.outcome = outcome;
    return request;
  }

  /** @returns undefined while the outcome is unknown; anything but an answer or a refusal is thrown */
  async ask(request: TrackedRequest, client = this.#client): Promise<Outcome | undefined> {
    try {
      return { ok: true, answer: await this.#send(request, client) };
    } catch (error) {
      if (!(error instanceof ClientError) || error.code === "internal" || error.code === "unexpected_answer")
        throw error;
      if (error.wantsRepeat) return undefined;
      const { traceId: _, ...facts } = error.facts;
      return { ok: false, refusal: { code: error.code, message: error.message, facts } };
    }
  }

  /** Archive the client's session, if it has one. */
  async leave(client: Client): Promise<void> {
    if (this.#sessionId === undefined) return;
    await client.stopSession(this.#sessionId).catch((error) => {
      // The session was refused when it was created.
      if (error.code !== "session_not_found") throw error;
    });
  }

  #send({ kind, sessionId, key }: TrackedRequest, client: Client) {
    const { userId } = this;
    const options = { idempotencyKey: key };
    switch (kind) {
      case "create": {
        const agentId = key.length % 2 === 0 ? "singer" : "dancer";
        return client.createSession({ id: sessionId, userId, agentId, activate: true }, options);
      }
      case "chat":
        return client.send({ type: "chat", sessionId, content: key }, options);
      case "rename":
        return client.renameSession(sessionId, key, options);
      case "pause":
        return client.pauseSession(sessionId, options);
      case "resume":
        return client.resumeSession(sessionId, options);
      case "archive":
        return client.archiveSession(sessionId, options);
    }
  }

  #next(): TrackedRequest {
    const key = `${this.name}-${this.tracked.length}`;
    if (this.#sessionId === undefined) {
      this.#sessionId = `${this.name}-s${this.tracked.length}`;
      return { kind: "create", sessionId: this.#sessionId, key };
    }
    const sessionId = this.#sessionId;
    const dice = this.#chance.below(100);
    if (dice >= 95) this.#sessionId = undefined;
    const kind = dice < 50 ? "chat" : dice < 80 ? "rename" : dice < 87 ? "pause" : dice < 95 ? "resume" : "archive";
    return { kind, sessionId, key };
  }
}

interface LoadOptions {
  users: number;
  /** The number of clients per user; they compete for the user's floor. */
  clientsEach: number;
  seed: number;
  /** Where requests go. */
  nodes: () => readonly ChildServer[];
}

/** Many concurrent clients, until they are stopped. */
export class Load {
  readonly clients: LoadClient[] = [];
  readonly users: string[];
  /** Requests that failed for good from their clients' point of view. */
  undecided = 0;
  /** The reasons of failed tries, by user. */
  readonly failures = new Map<string, string[]>();
  #isOver = false;
  #working: Promise<unknown> | undefined;
  readonly #waiting = new Set<() => void>();

  constructor({ users, clientsEach, seed, nodes }: LoadOptions) {
    const chance = new Chance(seed);
    this.users = Array.from({ length: users }, (_, n) => `user${n}`);
    for (const userId of this.users) {
      const failures: string[] = [];
      this.failures.set(userId, failures);
      const client = clientOf(nodes, (why) => failures.push(why));
      for (let n = 0; n < clientsEach; n++) {
        this.clients.push(new LoadClient(`${userId}-${n}`, userId, chance, client));
      }
    }
  }

  get tracked(): TrackedRequest[] {
    return this.clients.flatMap((client) => client.tracked);
  }

  begin(): void {
    this.#working = Promise.all(
      this.clients.map(async (client) => {
        while (!this.#isOver) {
          const { outcome } = await client.step();
          if (!outcome) this.undecided += 1;
          for (const look of this.#waiting) look();
        }
      }),
    );
    // Called by `end`.
    this.#working.catch(() => {});
  }

  /**
   * Resolves when each client of these users got `count` more answers.
   * @returns the time that took, in ms
   */
  async answered(times: number, users: readonly string[] = this.users): Promise<number> {
    const begunAt = performance.now();
    const wanted = this.clients
      .filter(({ userId }) => users.includes(userId))
      .map((client) => ({ client, count: answersOf(client) + times }));
    const missing = () => wanted.filter(({ client, count }) => answersOf(client) < count);
    await new Promise<void>((resolve, reject) => {
      const late = setTimeout(() => {
        this.#waiting.delete(look);
        reject(new Error(`no answer in time for ${missing().map(({ client }) => client.name)}`));
      }, PATIENCE_MS);
      const look = () => {
        if (missing().length > 0) return;
        clearTimeout(late);
        this.#waiting.delete(look);
        resolve();
      };
      this.#waiting.add(look);
      look();
    });
    return Math.round(performance.now() - begunAt);
  }

  /** Stop all clients. Rejects if a client received an answer that the protocol forbids. */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#working;
  }

  /**
   * Repeat every request at `nodes`: an answered request gets the same answer, and any other is decided now. Then the
   * store's log must contain each effect exactly once.
   */
  async audit(cluster: Cluster, nodes: readonly ChildServer[]): Promise<void> {
    const client = clientOf(() => nodes);
    await Promise.all(this.clients.map((each) => repeatAll(each, client)));
    // No run is lost: every holder finishes its turns.
    await expect.poll(() => countRunning(cluster), { interval: LOOK_MS }).toBe(0);
    for (const each of this.clients) await each.leave(client);
    const { tracked } = this;
    await expect
      .poll(async () => unfinishedRuns(tracked, await readStoreLog(cluster)), { interval: LOOK_MS })
      .toEqual([]);
    const log = await readStoreLog(cluster);
    checkLog(log);
    checkRequests(tracked, log);
  }
}

async function countRunning(cluster: Cluster): Promise<number> {
  const [row] = await cluster.sql(`
    SELECT count(*)::integer AS count FROM interlock.sessions
    WHERE state = 'active' AND view::json ->> 'activity' = 'running'`);
  return row!["count"] as number;
}

const answersOf = ({ tracked }: LoadClient): number => tracked.length - (tracked.at(-1)?.outcome ? 0 : 1);

/** A notice says how things are now, and is no part of what a repeat repeats. */
const withoutNotice = (outcome: LoadClient["tracked"][number]["outcome"]) =>
  outcome?.ok ? { ...outcome, answer: { ...outcome.answer, notice: undefined } } : outcome;

async function repeatAll(each: LoadClient, client: Client): Promise<void> {
  for (const request of each.tracked) {
    const again = await each.ask(request, client);
    expect(again, `${request.key} is not decided`).toBeDefined();
    request.outcome ??= again!;
    expect(withoutNotice(again), `${request.key} again`).toEqual(withoutNotice(request.outcome));
  }
}

/** A logged event as the database stores it. */
interface StoredEvent {
  floor: string;
  floorSeq: number;
  session: string | null;
  seq: number | null;
  type: string;
  data: Record<"id" | "role" | "content" | "title" | "runId" | "from" | "to", string>;
}

/** All events of all floors, each floor's in their order. */
async function readStoreLog(cluster: Cluster): Promise<StoredEvent[]> {
  const rows = await cluster.sql(`
    SELECT f.id AS floor, e.floor_seq AS "floorSeq", s.id AS session, e.seq, e.type, e.json
    FROM interlock.events e JOIN interlock.floors f USING (floor_key) LEFT JOIN interlock.sessions s USING (session_key)
    ORDER BY f.id, e.floor_seq`);
  return rows.map(({ json, floorSeq, seq, ...rest }) => {
    const places = { floorSeq: Number(floorSeq), seq: seq === null ? null : Number(seq) };
    return { ...rest, ...places, data: JSON.parse(json as string) } as StoredEvent;
  });
}

/**
 * The invariants of a log from which nothing was deleted: numbers without gaps, each transition continues the last one,
 * at most one active session on a floor at any time, and no run ends twice.
 */
function checkLog(log: readonly StoredEvent[]): void {
  const heads = new Map<string, number>();
  const states = new Map<string, string>();
  const active = new Map<string, Set<string>>();
  const ended = new Set<string>();
  const next = (name: string) => {
    const seq = (heads.get(name) ?? 0) + 1;
    heads.set(name, seq);
    return seq;
  };
  for (const { floor, floorSeq, session, seq, type, data } of log) {
    const where = `${floor} ${floorSeq}`;
    expect(floorSeq, where).toBe(next(floor));
    if (session === null) continue;
    expect(seq, where).toBe(next(`session ${session}`));
    if (type === "session_created") states.set(session, "created");
    if (type === "complete") {
      expect(ended.has(data.runId), `${where}: run ${data.runId} ends twice`).toBe(false);
      ended.add(data.runId);
    }
    if (type !== "session_transition") continue;
    expect(data.from, where).toBe(states.get(session));
    states.set(session, data.to);
    const holders = active.get(floor) ?? new Set();
    active.set(floor, holders);
    if (data.to.startsWith("active")) holders.add(session);
    else holders.delete(session);
    expect([...holders].slice(1), `${where}: two are active`).toEqual([]);
  }
}

/** Each answered command is in the log once, and each refused one is not. */
function checkRequests(tracked: readonly TrackedRequest[], log: readonly StoredEvent[]): void {
  const counts = new Map<string, number>();
  const count = (name: string) => counts.set(name, (counts.get(name) ?? 0) + 1);
  for (const { type, data } of log) {
    if (type === "session_created") count(`create ${data.id}`);
    if (type === "message" && data.role === "user") count(`chat ${data.content}`);
    if (type === "session_updated" && data.title) count(`rename ${data.title}`);
  }
  for (const { kind, key, sessionId, outcome } of tracked) {
    if (kind !== "create" && kind !== "chat" && kind !== "rename") continue;
    const name = `${kind} ${kind === "create" ? sessionId : key}`;
    expect(counts.get(name) ?? 0, name).toBe(outcome?.ok ? 1 : 0);
  }
}

/** Every accepted run has ended. */
function unfinishedRuns(tracked: readonly TrackedRequest[], log: readonly StoredEvent[]): string[] {
  const ended = new Set(log.filter(({ type }) => type === "complete").map(({ data }) => data.runId));
  return tracked.flatMap(({ outcome }) => {
    const runId = outcome?.ok ? outcome.answer.runId : undefined;
    return runId === undefined || ended.has(runId) ? [] : [runId];
  });
}
