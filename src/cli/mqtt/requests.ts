/** What may be asked over the broker: a session for an agent of the file, and what its participant says afterwards. */

import { createHash } from "node:crypto";
import { z } from "zod";
import { type Client, ClientError } from "../../client/interlock-client.ts";
import { EVERY_ZONE, floorOf, type SessionId } from "../../protocol/ids.ts";
import type { ZoneAnswer } from "../../protocol/zone-answer.ts";
import { parseJson } from "../../shared/json.ts";
import type { BrokerMessage } from "./broker-link.ts";
import type { ExpiringWrites } from "./expiring-writes.ts";
import type { Misfits } from "./misfits.ts";
import type { RequestEntry } from "./mqtt-file.ts";
import type { MqttReply } from "./published.ts";
import { encodeLevel, faultOfTopic, type TopicPattern } from "./topics.ts";
import { MAX_MESSAGE_BYTES } from "./values.ts";

/** Requests that the node has not answered. Further ones are left alone: their senders repeat them. */
const MAX_UNDER_WAY = 64;
/** The longest timer: an expiry may be 136 years. */
const MAX_TIMER_MS = 2_147_483_647;
/** Replies that a repeat gets again; the node keeps its own for longer. */
const MAX_REMEMBERED = 1_000;
const UNKNOWN = "Whether it was carried out is not known.";

const Id = z.string().regex(/^[\x21-\x7e]{1,128}$/);
const Target = { id: Id.optional(), sessionId: z.string().max(64) };
const VERBS = {
  request: z.object({
    id: Id,
    agent: z.string().max(64),
    title: z.string().min(1).max(256).optional(),
    text: z.string().min(1).max(MAX_MESSAGE_BYTES).optional(),
  }),
  end: z.object(Target),
  say: z.object({ ...Target, id: Id, text: z.string().min(1).max(MAX_MESSAGE_BYTES) }),
  played: z.object({ ...Target, messageId: z.string().max(64), upTo: z.int().nonnegative() }),
  heartbeat: z.object(Target),
} as const;
type Verb = keyof typeof VERBS;
type Body<V extends Verb> = z.infer<(typeof VERBS)[V]>;

interface Row {
  readonly entry: RequestEntry;
  readonly patterns: readonly { verb: Verb; pattern: TopicPattern }[];
}

/** Who asks: the user and the zone of the topic, and the agents that the file lists there. */
interface Asker {
  readonly verb: Verb;
  readonly userId: string;
  readonly zone: string | undefined;
  readonly agents: ReadonlySet<string>;
}

export interface RequestsOptions {
  client: Client;
  writesUntil: (expiry: AbortSignal) => ExpiringWrites;
  entries: readonly RequestEntry[];
  prefix: string;
  /** The bridge's: the keys of its requests are its own. */
  name: string;
  /** Topics that belong to others: no reply goes there. */
  isTaken: (topic: string) => boolean;
  publish: (topic: string, payload: string, correlationData: Buffer | undefined) => void;
  misfits: Misfits;
  say: (line: string) => void;
  /** A floor is used: its topics are published. */
  onFloor: (floorId: string) => void;
}

export class Requests {
  readonly #options: RequestsOptions;
  readonly #rows: readonly Row[];
  readonly #replies = new Map<string, Promise<MqttReply>>();
  #underWay = 0;

  constructor(options: RequestsOptions) {
    this.#options = options;
    this.#rows = options.entries.map((entry) => ({
      entry,
      patterns: (Object.keys(VERBS) as Verb[]).map((verb) => ({ verb, pattern: entry.topic.withLastLevel(verb) })),
    }));
  }

  get filters(): string[] {
    return this.#rows.flatMap(({ patterns }) => patterns.map(({ pattern }) => pattern.filter));
  }

  /** A message of any topic. Those of no row are left alone. */
  take(message: BrokerMessage): void {
    const asker = this.#askerOf(message.topic);
    if (!asker) return;
    const { misfits } = this.#options;
    if (message.payload.length > MAX_MESSAGE_BYTES) return misfits.note("too_long", message.topic);
    // The sender has taken back a retained request.
    if (message.payload.length === 0) return;
    const body = parseJson(message.payload.toString("utf8"));
    if (typeof body !== "object" || body === null) return misfits.note("no_json", message.topic);
    const { id } = body as { id?: unknown };
    const named = Id.safeParse(id);
    const key = named.success ? this.#keyOf(asker, named.data) : undefined;
    if (this.#underWay >= MAX_UNDER_WAY) return misfits.note("too_many", message.topic);
    this.#underWay += 1;
    const reply = this.#replyOnce(key, () => this.#carryOut(asker, body, key, message));
    void reply.then((answer) => {
      this.#underWay -= 1;
      this.#answer(message, asker, answer);
    });
  }

  #askerOf(topic: string): Asker | undefined {
    const found: Asker[] = [];
    for (const { entry, patterns } of this.#rows) {
      for (const { verb, pattern } of patterns) {
        const named = pattern.match(topic);
        const userId = entry.user ?? named?.["user"];
        if (!named || userId === undefined) continue;
        const zone = entry.zone ?? named["zone"];
        found.push({ verb, userId, zone, agents: new Set<string>(entry.agents) });
      }
    }
    const [first] = found;
    if (!first) return undefined;
    // Two entries may have one topic: their agents count together, if they are for one floor.
    const same = found.filter(({ userId, zone }) => userId === first.userId && zone === first.zone);
    return { ...first, agents: new Set(same.flatMap(({ agents }) => [...agents])) };
  }

  #keyOf({ verb, userId, zone }: Asker, id: string): string {
    const parts = [this.#options.prefix, this.#options.name, verb, userId, zone ?? null, id];
    return createHash("sha256").update(JSON.stringify(parts)).digest("base64url");
  }

  /** The same id twice is one request. One that the node has not decided may be tried again. */
  #replyOnce(key: string | undefined, ask: () => Promise<MqttReply>): Promise<MqttReply> {
    if (key === undefined) return ask();
    const former = this.#replies.get(key);
    if (former) return former;
    const reply = ask();
    this.#replies.set(key, reply);
    void reply.then(({ outcome }) => {
      if (outcome === "failed" || outcome === "refused") this.#replies.delete(key);
    });
    if (this.#replies.size > MAX_REMEMBERED) this.#replies.delete(this.#replies.keys().next().value!);
    return reply;
  }

  async #carryOut(asker: Asker, body: object, key: string | undefined, message: BrokerMessage): Promise<MqttReply> {
    const { verb } = asker;
    const id = Id.safeParse((body as { id?: unknown }).id).data ?? null;
    const nothing = { id, sessionId: null };
    const refuse = (reason: string, say: string): MqttReply => {
      this.#options.say(`a request in ${message.topic} is refused: ${say}`);
      return { ...nothing, outcome: "refused", reason, say };
    };
    if (message.isRetained) return refuse("retained", "It was kept by the broker, and may be old.");
    if (message.expiresInS === 0) return refuse("expired", "It has expired.");
    const parsed = VERBS[verb].safeParse(body);
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      return refuse("bad_request", `${issue!.path.join(".") || verb}: ${issue!.message}.`);
    }
    const { client, writesUntil } = this.#options;
    const expiry = expiryOf(message);
    const writes = expiry && writesUntil(expiry);
    try {
      const done = await this.#ask(asker, parsed.data, key, writes?.client ?? client);
      if (!done) return refuse("not_listed", `The file does not list ${nameOf(parsed.data)} here.`);
      return { ...nothing, ...done };
    } catch (error) {
      if (expiry && error === expiry.reason) return { ...nothing, ...expiredReply(writes) };
      if (!(error instanceof ClientError)) throw error;
      return { ...nothing, ...failedReply(error) };
    }
  }

  /** @returns undefined for what the file does not list */
  async #ask(
    asker: Asker,
    body: Body<Verb>,
    key: string | undefined,
    client: Client,
  ): Promise<Omit<MqttReply, "id"> | undefined> {
    if (asker.verb === "request") return await this.#create(asker, body as Body<"request">, key!, client);
    const { sessionId } = body as Body<"end">;
    if (!(await this.#isTheirs(asker, sessionId, client))) return undefined;
    const options = { ...(key !== undefined && { idempotencyKey: key }) };
    const done = { outcome: "done", reason: null, say: null, sessionId } as const;
    switch (asker.verb) {
      case "end":
        await client.stopSession(sessionId, { ...options, ...(asker.zone === EVERY_ZONE && { group: true }) });
        return done;
      case "say": {
        const { text } = body as Body<"say">;
        const { decision } = await client.send({ type: "chat", sessionId, content: text }, options);
        if (!decision) return done;
        return { outcome: decision.outcome, reason: decision.reason, say: decision.say, sessionId };
      }
      case "played": {
        const { messageId, upTo } = body as Body<"played">;
        const { playedUpTo } = await client.played(sessionId, messageId, upTo, options);
        return { ...done, ...(playedUpTo !== undefined && { playedUpTo }) };
      }
      case "heartbeat": {
        const beat = await client.send({ type: "heartbeat", sessionId });
        const { state, level, lapsed } = beat;
        return {
          ...done,
          ...(state && { state }),
          ...(level !== undefined && { level }),
          ...(lapsed && { lapsed }),
        };
      }
    }
  }

  async #create(
    { userId, zone, agents }: Asker,
    { agent, title, text }: Body<"request">,
    key: string,
    writes: Client,
  ): Promise<Omit<MqttReply, "id"> | undefined> {
    if (!agents.has(agent)) return undefined;
    const { client, onFloor } = this.#options;
    const wanted = {
      agentId: agent,
      userId,
      activate: true,
      ...(zone !== undefined && { zone }),
      ...(title && { title }),
    };
    // On all floors each session is told the text when its floor takes it.
    const content = zone === EVERY_ZONE && text !== undefined ? { content: text } : undefined;
    const created = await writes.createSession({ ...wanted, ...content }, { idempotencyKey: key });
    const { session, decision, zones = [session] } = created;
    for (const { floorId } of zones) onFloor(floorId);
    const { id: sessionId } = session;
    if (text !== undefined && !content) {
      try {
        // The request was carried out in time, and its text belongs to it.
        const options = { idempotencyKey: `${key}.text` };
        await client.send({ type: "chat", sessionId, content: text }, options);
      } catch (error) {
        // A session without what it is to say is of no use.
        if (error instanceof ClientError && !error.wantsRepeat) await client.stopSession(sessionId).catch(() => {});
        throw error;
      }
    }
    const { outcome = "granted", reason = null, say = null } = decision ?? {};
    return { outcome, reason, say, sessionId, ...zonesReply(created.zones) };
  }

  /** Whether a session is on the topic's floor, with the zone `*` on any of its user, and of an agent of the file. */
  async #isTheirs({ userId, zone, agents }: Asker, sessionId: string, client: Client): Promise<boolean> {
    try {
      const { session } = await client.getSession(sessionId);
      const isThere =
        zone === EVERY_ZONE
          ? session.userId === userId
          : session.floorId === floorOf(sessionId as SessionId, userId, zone);
      return isThere && agents.has(session.agentId);
    } catch (error) {
      const isUnknown = error instanceof ClientError && /^(session_not_found|bad_request)$/.test(error.code);
      if (isUnknown) return false;
      throw error;
    }
  }

  #answer({ responseTopic, correlationData }: BrokerMessage, { userId }: Asker, reply: MqttReply): void {
    const { prefix, publish, isTaken } = this.#options;
    const usual = reply.id === null ? undefined : `${prefix}/out/${encodeLevel(userId)}/reply/${encodeLevel(reply.id)}`;
    const isGiven = responseTopic !== undefined && faultOfTopic(responseTopic) === undefined && !isTaken(responseTopic);
    const topic = isGiven ? responseTopic : usual;
    if (topic !== undefined) publish(topic, JSON.stringify(reply), isGiven ? correlationData : undefined);
  }
}

function expiryOf({ expiresInS }: BrokerMessage): AbortSignal | undefined {
  return expiresInS === undefined ? undefined : AbortSignal.timeout(Math.min(expiresInS * 1_000, MAX_TIMER_MS));
}

/** The reply to a request of which the node has not told the outcome before its expiry. */
function expiredReply(writes: ExpiringWrites | undefined) {
  const outcome = "failed";
  if (!writes?.mayBeDone()) return { outcome, reason: "expired", say: "It has expired." } as const;
  const say = `It has expired, and the node did not answer in time. ${UNKNOWN}`;
  return { outcome, reason: "unreachable", say } as const;
}

function failedReply({ code, message, facts: { decision, zones } }: ClientError) {
  if (code === "rejected" && decision) {
    return { outcome: "rejected", reason: decision.reason, say: decision.say, ...zonesReply(zones) } as const;
  }
  const say = code === "unreachable" ? `${message} ${UNKNOWN}` : message;
  return { outcome: "failed", reason: code, say } as const;
}

/** What each floor decided of a request for all. */
const zonesReply = (zones: readonly ZoneAnswer[] | undefined) => zones && { zones: zones.map(zoneReply) };

const zoneReply = ({ zone, sessionId, decision, errorCode, error }: ZoneAnswer) => ({
  zone: zone ?? null,
  outcome: decision?.outcome ?? ("failed" as const),
  reason: decision?.reason ?? errorCode ?? null,
  say: decision?.say ?? error ?? null,
  sessionId: sessionId ?? null,
});

const nameOf = (body: Body<Verb>): string =>
  "agent" in body ? `the agent ${body.agent}` : `the session ${body.sessionId}`;
