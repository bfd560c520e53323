/**
 * A broker, a node and devices in memory, on virtual time, with the bridge itself between them. Everything may be
 * killed, cut and started again at any moment; messages and answers take a while, and answers may be lost.
 */

import { bridgeBroker } from "../../../src/cli/mqtt/bridge.ts";
import type { BrokerMessage, Link, LinkListener, PublishOptions } from "../../../src/cli/mqtt/broker-link.ts";
import type { KeptDevice } from "../../../src/cli/mqtt/device.ts";
import { MqttFile } from "../../../src/cli/mqtt/mqtt-file.ts";
import { TopicPattern } from "../../../src/cli/mqtt/topics.ts";
import { plain } from "../../../src/cli/paint.ts";
import { PlayerLanes } from "../../../src/cli/playing/lanes.ts";
import { type Client, ClientError } from "../../../src/client/interlock-client.ts";
import { parseYamlFile } from "../../../src/config/yaml-file.ts";
import { logPosition, parseLogPosition } from "../../../src/protocol/position.ts";
import type { Chance } from "../runner/chance.ts";

const LEASE_MS = 5_000;
/** A broken connection is noticed by the broker so late. */
const WILL_AFTER_MS = 300;

const later = (ms: number, work: () => void): void => void setTimeout(work, ms);
const pause = (ms: number) => new Promise<void>((resolve) => later(ms, resolve));

interface Member {
  filters: TopicPattern[];
  will: { topic: string; payload: string };
  receive(message: BrokerMessage): void;
  lose(): void;
}

class WorldBroker {
  isUp = true;
  readonly retained = new Map<string, string>();
  /** Topics with payloads that a bridge published again on one connection, which the broker still had. */
  readonly repeated: string[] = [];
  readonly #members = new Set<Member>();
  /** Members whose connection is broken, which the broker has not noticed. */
  readonly #wills = new Set<Member>();

  join(member: Member): boolean {
    // A client that is back before its former connection has timed out takes it over, and its last will comes first.
    if (this.isUp && this.#wills.delete(member)) this.publish(member.will.topic, member.will.payload, true);
    if (this.isUp) this.#members.add(member);
    return this.isUp;
  }

  has(member: Member): boolean {
    return this.#members.has(member);
  }

  subscribe(member: Member, filters: readonly string[]): void {
    const added = filters.map((filter) => new TopicPattern(filter));
    member.filters.push(...added);
    for (const [topic, payload] of this.retained) {
      if (added.some((pattern) => pattern.match(topic))) this.#deliver(member, topic, payload, true);
    }
  }

  publish(topic: string, payload: string, isRetained: boolean): void {
    if (isRetained && payload === "") this.retained.delete(topic);
    else if (isRetained) this.retained.set(topic, payload);
    for (const member of this.#members) {
      if (member.filters.some((pattern) => pattern.match(topic))) this.#deliver(member, topic, payload, false);
    }
  }

  /** A member's connection breaks: its last will follows. */
  cut(member: Member, hasWill = true): void {
    if (!this.#members.delete(member)) return;
    member.lose();
    if (!hasWill) return;
    this.#wills.add(member);
    later(WILL_AFTER_MS, () => {
      if (this.#wills.delete(member)) this.publish(member.will.topic, member.will.payload, true);
    });
  }

  begin(): void {
    this.isUp = true;
  }

  /** Killed, with all that it kept. */
  kill(): void {
    this.isUp = false;
    this.#wills.clear();
    this.retained.clear();
    for (const member of [...this.#members]) this.cut(member, false);
  }

  #deliver(member: Member, topic: string, payload: string, isRetained: boolean): void {
    const nothing = { responseTopic: undefined, correlationData: undefined, expiresInS: undefined };
    const message = { topic, payload: Buffer.from(payload), isRetained, ...nothing };
    // In the order in which they were published: every message takes as long.
    later(5, () => this.#members.has(member) && member.receive(message));
  }
}

/** The bridge's connection to that broker. */
class WorldLink implements Link, Member {
  filters: TopicPattern[] = [];
  readonly will: { topic: string; payload: string };
  isDead = false;
  readonly #broker: WorldBroker;
  readonly #listener: LinkListener;
  readonly #chance: Chance;
  /** The topics to which it has published on this connection with `retain`. */
  readonly #published = new Set<string>();

  constructor(broker: WorldBroker, listener: LinkListener & { will: WorldLink["will"] }, chance: Chance) {
    this.#broker = broker;
    this.#listener = listener;
    this.will = listener.will;
    this.#chance = chance;
    later(10, () => this.#connect());
  }

  get isUp(): boolean {
    return !this.isDead && this.#broker.has(this);
  }

  receive(message: BrokerMessage): void {
    if (!this.isDead) this.#listener.onMessage(message);
  }

  lose(): void {
    this.filters = [];
    this.#published.clear();
    if (this.isDead) return;
    this.#listener.onDown("cut");
    later(250 + this.#chance.below(2_000), () => this.#connect());
  }

  async publish(topic: string, payload: string, { isRetained = false }: PublishOptions = {}): Promise<void> {
    if (!this.isUp) throw new Error("the broker is away");
    await pause(2);
    if (!this.isUp) throw new Error("the broker is away");
    const isKept = isRetained && this.#broker.retained.get(topic) === payload;
    if (isKept && this.#published.has(topic)) this.#broker.repeated.push(`${topic} ${payload}`);
    if (isRetained) this.#published.add(topic);
    this.#broker.publish(topic, payload, isRetained);
    await pause(2);
    // The broker has it, and its answer is lost.
    if (!this.isUp) throw new Error("the broker is away");
  }

  async subscribe(filters: readonly string[]): Promise<string[]> {
    if (!this.isUp) throw new Error("the broker is away");
    await pause(2);
    if (!this.isUp) throw new Error("the broker is away");
    this.#broker.subscribe(this, filters);
    return [];
  }

  async unsubscribe(filter: string): Promise<void> {
    if (!this.isUp) throw new Error("the broker is away");
    this.filters = this.filters.filter((pattern) => pattern.filter !== filter);
  }

  async close(): Promise<void> {
    this.isDead = true;
    this.#broker.cut(this, false);
  }

  #connect(): void {
    if (this.isDead) return;
    if (this.#broker.join(this)) this.#listener.onUp();
    else later(250 + this.#chance.below(2_000), () => this.#connect());
  }
}

export class WorldDevice implements Member {
  readonly id: string;
  filters: TopicPattern[] = [];
  readonly will: { topic: string; payload: string };
  playing: "playing" | "paused" | "stopped" = "stopped";
  volume = 60;
  isOff = false;
  readonly #broker: WorldBroker;

  constructor(broker: WorldBroker, id: string) {
    this.#broker = broker;
    this.id = id;
    this.will = { topic: `${id}/online`, payload: "offline" };
    this.connect();
  }

  get isConnected(): boolean {
    return this.#broker.has(this);
  }

  connect(): void {
    if (this.isOff || this.isConnected) return;
    if (!this.#broker.join(this)) return later(300, () => this.connect());
    this.filters = [];
    this.#broker.subscribe(this, [`${this.id}/cmd`, `${this.id}/volume/set`]);
    this.#say("online", "online");
    this.#say("volume", String(this.volume));
    this.#say("state", this.playing);
  }

  receive({ topic, payload }: BrokerMessage): void {
    const text = payload.toString();
    if (topic === `${this.id}/volume/set`) {
      this.volume = Number(text);
      this.#say("volume", text);
    } else if (this.playing !== "stopped") {
      this.playing = text === "play" ? "playing" : "paused";
      this.#say("state", this.playing);
    }
  }

  lose(): void {
    later(400, () => this.connect());
  }

  /** Its user presses a key. */
  press(playing: WorldDevice["playing"]): void {
    if (this.isOff) return;
    this.playing = playing;
    this.#say("state", playing);
  }

  /** Its power fails. */
  powerOff(): void {
    this.isOff = true;
    this.playing = "stopped";
    this.#broker.cut(this);
  }

  powerOn(): void {
    this.isOff = false;
    this.connect();
  }

  #say(what: string, payload: string): void {
    if (this.isConnected) this.#broker.publish(`${this.id}/${what}`, payload, true);
  }
}

type Others = "nobody" | "prompt" | "call";

interface WorldSession {
  id: string;
  floorId: string;
  agentId: string;
  title: string;
  activity: "idle";
  state: "created" | "active" | "ducked" | "paused" | "archived";
  level?: number | undefined;
  pausedBy?: "preemption" | "user" | "yield" | undefined;
  queuedAt?: number | undefined;
  leaseMs: number;
}

/** A node with a floor for each device, on which a prompt or a call may be. */
export class WorldNode {
  isUp = true;
  readonly flags: Record<string, boolean> = {};
  readonly sessions: WorldSession[] = [];
  readonly #others = new Map<string, Others>();
  readonly #events: { session: WorldSession; event: Record<string, unknown> }[] = [];
  readonly #beats = new Map<string, number>();
  readonly #keys = new Map<string, WorldSession>();
  readonly #chance: Chance;

  constructor(chance: Chance) {
    this.#chance = chance;
  }

  setUp(isUp: boolean): void {
    this.isUp = isUp;
  }

  othersOn(floorId: string): Others {
    return this.#others.get(floorId) ?? "nobody";
  }

  setOthers(floorId: string, others: Others): void {
    this.#others.set(floorId, others);
    for (const session of this.sessions) {
      const { state, pausedBy, queuedAt } = session;
      const competes = state === "active" || state === "ducked" || pausedBy === "preemption" || queuedAt !== undefined;
      if (session.floorId === floorId && state !== "archived" && competes) this.#settle(session);
    }
  }

  /** What is due: leases that have run out. */
  expire(): void {
    for (const session of this.sessions) {
      const isLate = Date.now() - this.#beats.get(session.id)! > LEASE_MS * 1.5;
      if (!isLate || session.state === "archived" || session.pausedBy === "user" || session.pausedBy === "yield")
        continue;
      if (session.state === "created" && session.queuedAt === undefined) continue;
      if (session.state === "created") {
        session.queuedAt = undefined;
        this.#decide(session, "rejected", "lease_expired");
      } else this.#move(session, "paused", { pausedBy: "yield" }, "lease_expired");
    }
  }

  sessionOn(floorId: string): WorldSession | undefined {
    return this.sessions.findLast((session) => session.floorId === floorId && session.state !== "archived");
  }

  /** A client of it, as a bridge has one. A killed bridge's client does nothing any more. */
  client(isDead: () => boolean): Client {
    const call = async <T>(work: () => T): Promise<T> => {
      await this.#pass(isDead);
      const result = work();
      if (this.#chance.below(20) === 0) throw unreachable();
      await this.#pass(isDead);
      return result;
    };
    const command = (id: string, act: (session: WorldSession) => void) =>
      call(() => {
        const session = this.#present(id);
        act(session);
        return this.#answer(session);
      });
    const request = (session: WorldSession) => this.#settle(session);
    const client = {
      createSession: (
        { agentId, userId, zone, title }: Record<string, string>,
        { idempotencyKey }: { idempotencyKey: string },
      ) =>
        call(() => {
          const former = this.#keys.get(idempotencyKey);
          if (former) return this.#answer(former);
          const floorId = `u:${userId}/${zone}`;
          for (const other of this.sessions) {
            if (other.floorId === floorId && other.state !== "archived")
              this.#move(other, "archived", {}, "superseded");
          }
          const id = `s${this.sessions.length}`;
          const session: WorldSession = {
            id,
            floorId,
            agentId: agentId!,
            title: title!,
            activity: "idle",
            state: "created",
            leaseMs: LEASE_MS,
          };
          this.sessions.push(session);
          this.#keys.set(idempotencyKey, session);
          this.#beats.set(id, Date.now());
          request(session);
          return this.#answer(session);
        }),
      activateSession: (id: string) => command(id, request),
      resumeSession: (id: string) => command(id, request),
      pauseSession: (id: string) =>
        command(id, (session) => this.#move(session, "paused", { pausedBy: "user" }, "pause")),
      archiveSession: (id: string) => command(id, (session) => this.#move(session, "archived", {}, "archive")),
      renameSession: (id: string) => command(id, () => {}),
      loadSession: ({ sessionId }: { sessionId: string }) =>
        call(() => ({ ...this.#answer(this.#find(sessionId)), position: this.#position() })),
      openSession: (id: string, { position, signal }: { position: string; signal: AbortSignal }) =>
        this.#stream(isDead, position, signal, ({ session }) => session.id === id),
      send: ({ sessionId }: { sessionId: string }) =>
        call(() => {
          const session = this.#present(sessionId);
          this.#beats.set(sessionId, Date.now());
          return { state: session.state, leaseMs: LEASE_MS, lapsed: session.pausedBy === "yield" };
        }),
      getFloor: (floorId: string) => call(() => this.#view(floorId)),
      readFloorLog: () => call(() => ({ events: [] })),
      openFloor: (floorId: string, { position, signal }: { position: string; signal: AbortSignal }) =>
        this.#stream(isDead, position, signal, ({ session }) => session.floorId === floorId),
      listAgents: () => call(() => ({ agents: [{ id: "music_agent", name: "Music", leaseMs: LEASE_MS }] })),
      changeFlags: (_: string, flags: Record<string, boolean>) =>
        call(() => ({ flags: Object.assign(this.flags, flags) })),
    };
    return client as unknown as Client;
  }

  #view(floorId: string) {
    const own = this.sessions.filter((session) => session.floorId === floorId);
    const are = (state: string) => own.filter((session) => session.state === state).map((session) => ({ ...session }));
    return {
      floorId,
      holder: are("active")[0] ?? null,
      ducked: are("ducked"),
      paused: are("paused"),
      queued: are("created"),
      flags: { ...this.flags },
      decisions: [],
      position: this.#position(),
    };
  }

  async #pass(isDead: () => boolean): Promise<void> {
    await pause(1 + this.#chance.below(20));
    if (isDead()) await new Promise(() => {});
    if (!this.isUp) throw unreachable();
  }

  #find(id: string): WorldSession {
    const session = this.sessions.find((each) => each.id === id);
    if (!session) throw new ClientError("session_not_found", "none", { status: 404, retryable: false });
    return session;
  }

  #present(id: string): WorldSession {
    const session = this.#find(id);
    if (session.state === "archived")
      throw new ClientError("session_archived", "over", { status: 409, retryable: false });
    return session;
  }

  #settle(session: WorldSession): void {
    const others = this.othersOn(session.floorId);
    if (others === "nobody") return this.#move(session, "active", {}, "granted");
    if (others === "prompt") return this.#move(session, "ducked", { level: -14 }, "ducked");
    if (session.state === "created") {
      session.queuedAt = Date.now();
      this.#decide(session, "queued", "lower_priority");
    } else this.#move(session, "paused", { pausedBy: "preemption" }, "preempted");
  }

  #move(session: WorldSession, to: WorldSession["state"], rest: Partial<WorldSession>, reason: string): void {
    if (session.state === "archived") return;
    const from = session.state;
    Object.assign(session, { level: undefined, pausedBy: undefined, queuedAt: undefined }, rest, { state: to });
    const written = to === "active" || to === "ducked" ? `${to}.idle` : to;
    this.#log(session, "session_transition", { from, to: written, reason, level: rest.level });
  }

  #decide({ id, agentId, ...session }: WorldSession, outcome: string, reason: string): void {
    const challenger = { sessionId: id, agentId, priority: 20, explained: [] };
    this.#log({ id, agentId, ...session }, "arbitration", { outcome, reason, challenger, say: "decided" });
  }

  #log(session: WorldSession, type: string, data: object): void {
    const seq = this.#events.length + 1;
    this.#events.push({
      session,
      event: { type, seq, sessionId: session.id, data, timestamp: new Date().toISOString() },
    });
  }

  #position(): string {
    return logPosition("e", this.#events.length);
  }

  #answer(session: WorldSession) {
    return { session: { ...session }, position: this.#position(), decision: { say: "decided" } };
  }

  async *#stream(
    isDead: () => boolean,
    position: string,
    signal: AbortSignal,
    isOf: (entry: { session: WorldSession }) => boolean,
  ): AsyncGenerator<unknown> {
    let at = parseLogPosition(position)!.seq;
    while (!signal.aborted) {
      if (isDead()) await new Promise(() => {});
      while (this.isUp && at < this.#events.length) {
        const entry = this.#events[at]!;
        at += 1;
        if (isOf(entry)) yield entry.event;
      }
      await pause(20 + this.#chance.below(80));
    }
  }
}

const unreachable = (): ClientError => new ClientError("unreachable", "away", { status: 0, retryable: true });

const DEVICES = ["kitchen", "living", "bath"];

/** Everything together. */
export class MqttWorld {
  readonly chance: Chance;
  readonly broker: WorldBroker;
  readonly node: WorldNode;
  readonly devices: readonly WorldDevice[];
  readonly file: MqttFile;
  readonly #kept = new Map<string, KeptDevice>();
  #bridge: { isDead: boolean; link: WorldLink | undefined } | undefined;
  readonly #expiring: ReturnType<typeof setInterval>;

  constructor(chance: Chance) {
    this.chance = chance;
    this.broker = new WorldBroker();
    this.node = new WorldNode(chance);
    this.devices = DEVICES.map((id) => new WorldDevice(this.broker, id));
    const entries = DEVICES.map(
      (id) =>
        `  - { id: ${id}, agent: music_agent, user: house, zone: ${id}, playing: { topic: ${id}/state, is: playing }, alive: { topic: ${id}/online, is: online }, pause: { topic: ${id}/cmd, payload: pause }, play: { topic: ${id}/cmd, payload: play }${id === "bath" ? "" : `, volume: { topic: ${id}/volume/set, from_db: percent }`} }`,
    );
    const flag = "  - { topic: night, value: { is: ON }, floor: u:house/kitchen, flag: night }";
    const reading = parseYamlFile(
      `broker: { url: "mqtt://b" }\nflags:\n${flag}\nplayers:\n${entries.join("\n")}\n`,
      MqttFile,
    );
    if (!reading.ok) throw new Error(JSON.stringify(reading.faults));
    this.file = reading.file;
    this.#expiring = setInterval(() => this.node.isUp && this.node.expire(), 500);
    this.startBridge();
  }

  startBridge(): void {
    if (this.#bridge) return;
    const bridge = { isDead: false, link: undefined as WorldLink | undefined };
    this.#bridge = bridge;
    void bridgeBroker({
      client: this.node.client(() => bridge.isDead),
      // Its file has no requests.
      writesUntil: () => ({ client: this.node.client(() => bridge.isDead), mayBeDone: () => false }),
      file: this.file,
      kept: {
        of: (id) => this.#kept.get(id),
        put: (id, device) => {
          if (bridge.isDead) return;
          if (device) this.#kept.set(id, structuredClone(device));
          else this.#kept.delete(id);
        },
        touch: () => {},
      },
      lanes: new PlayerLanes(() => {}, plain),
      explain: ({ message }) => message,
      signal: new AbortController().signal,
      openLink: async (listener) => {
        bridge.link = new WorldLink(this.broker, listener, this.chance);
        return bridge.link;
      },
    });
  }

  killBridge(): void {
    const bridge = this.#bridge;
    if (!bridge) return;
    bridge.isDead = true;
    this.#bridge = undefined;
    if (!bridge.link) return;
    bridge.link.isDead = true;
    this.broker.cut(bridge.link);
  }

  cutBridge(): void {
    if (this.#bridge?.link) this.broker.cut(this.#bridge.link);
  }

  /** Everything is there again. */
  mend(): void {
    this.broker.begin();
    this.node.setUp(true);
    for (const device of this.devices) device.powerOn();
    this.startBridge();
  }

  end(): void {
    this.killBridge();
    clearInterval(this.#expiring);
  }
}
