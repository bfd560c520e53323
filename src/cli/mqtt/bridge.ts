/**
 * `interlock mqtt`: signals of a broker become flags, messages become requests, devices take part as players, and what
 * each floor decides is published.
 */

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { pauseFor } from "../../client/delay.ts";
import { type AgentView, type Client, ClientError, type FloorView } from "../../client/interlock-client.ts";
import { floorOfUser, parseFloorId, userOf } from "../../protocol/ids.ts";
import type { PlayerLanes } from "../playing/lanes.ts";
import { BrokerLink, type BrokerMessage, type Link, type LinkListener } from "./broker-link.ts";
import { Device } from "./device.ts";
import { DISCOVERY, discoveryFilter, discoveryTopics } from "./discovery.ts";
import type { ExpiringWrites } from "./expiring-writes.ts";
import { type FlagEvent, type FlagSignal, newFlagSignal, stepFlag } from "./flag-signal.ts";
import { followFloor } from "./followed-floor.ts";
import type { KeptDevices } from "./kept-devices.ts";
import { Misfits } from "./misfits.ts";
import { type FlagEntry, floorsOfFile, type MqttFile } from "./mqtt-file.ts";
import { Outbox } from "./outbox.ts";
import { publishedDecision, topicsOfFloor } from "./published.ts";
import { Requests } from "./requests.ts";
import { RetainedStates } from "./retained-states.ts";
import { floorOfLevels, levelsOfFloor } from "./topics.ts";
import { meets } from "./values.ts";

/** The pause before a flag is sent again that the node did not take, in ms. */
const AGAIN_MS = 1_000;
/** How often the bridge notes that it runs, in ms. */
const NOTE_EVERY_MS = 60_000;
/** Floors that are published, those of the file among them. */
const MAX_FLOORS = 1_000;
/** Topics of an earlier bridge that are compared; a broker may hold any number below our prefix. */
const MAX_LEARNED = 100_000;
/** How long the broker may take to send what it keeps, in ms. */
const LEARNED_WITHIN_MS = 5_000;
/** How long the broker may take for the last messages of a bridge that ends, in ms. */
const LAST_MS = 2_000;

export interface BridgeOptions {
  client: Client;
  writesUntil: (expiry: AbortSignal) => ExpiringWrites;
  file: MqttFile;
  kept: Pick<KeptDevices, "of" | "put" | "touch">;
  lanes: PlayerLanes;
  /** Why the node does not take requests, as a sentence. */
  explain: (error: ClientError) => string;
  signal: AbortSignal;
  /** Connects to the broker. */
  openLink: (
    listener: LinkListener & { will: { topic: string; payload: string } },
  ) => Promise<Link & { close(): Promise<void> }>;
}

export const linkTo = (file: MqttFile, path: string): BridgeOptions["openLink"] => {
  return (listener) => BrokerLink.open({ ...listener, broker: file.broker, file: path });
};

/** Why the bridge has ended: a signal, or another bridge of its name. */
export type BridgeEnd = "stopped" | "taken over";

/**
 * Run until the signal is aborted, or another bridge has the name.
 * @throws Error with a sentence if the library is missing or a file of the broker's cannot be read
 */
export async function bridgeBroker(options: BridgeOptions): Promise<BridgeEnd> {
  const bridge = new Bridge(options);
  try {
    return await bridge.run();
  } finally {
    await bridge.close();
  }
}

interface FlagRow {
  readonly floor: string;
  readonly flag: string;
  readonly entries: readonly FlagEntry[];
  machine: FlagSignal;
}

class Bridge {
  readonly #options: BridgeOptions;
  /** Of this process: the last one of a name is the bridge. */
  readonly #instance = randomUUID();
  readonly #base: string;
  readonly #misfits: Misfits;
  readonly #outbox: Outbox;
  readonly #states: RetainedStates;
  readonly #flags: readonly FlagRow[];
  readonly #devices: readonly Device[];
  readonly #requests: Requests;
  /** By their ids: what ends following them. */
  readonly #floors = new Map<string, AbortController>();
  readonly #agents = new Map<string, AgentView>();
  readonly #ending = new AbortController();
  readonly #takenOver = Promise.withResolvers<BridgeEnd>();
  readonly #lost: ReturnType<typeof setTimeout>[] = [];
  #link: (Link & { close(): Promise<void> }) | undefined;
  /** Connections to the broker so far. */
  #connections = 0;
  #isTakenOver = false;
  #isEnding = false;
  /** It has said that it is online, on this connection. */
  #isOnline = false;
  #noting: ReturnType<typeof setInterval> | undefined;
  /** Resolves when the broker has sent all that it keeps. */
  #synced: { token: string; resolve: () => void } | undefined;
  #wasDown: boolean | undefined;

  constructor(options: BridgeOptions) {
    this.#options = options;
    const { file, lanes, kept, client, writesUntil } = options;
    this.#base = `${file.prefix}/bridge/${file.name}`;
    const say = (line: string) => lanes.say(line);
    this.#misfits = new Misfits(say);
    this.#outbox = new Outbox(
      () => this.#link,
      (topic, why) => this.#misfits.note(`the broker does not take it: ${why}`, topic),
    );
    this.#states = new RetainedStates(this.#outbox);
    this.#flags = rowsOf(file.flags);
    this.#devices = file.players.map(
      (entry) =>
        new Device(entry, kept.of(entry.id), {
          client,
          lanes,
          outbox: this.#outbox,
          misfits: this.#misfits,
          leaseMsOf: (agentId) => this.#agents.get(agentId)?.leaseMs,
          keep: (what) => kept.put(entry.id, what),
          onFault: (error) => this.#noteFault(entry, error),
        }),
    );
    const reserved = reservedTopics(file);
    this.#requests = new Requests({
      client,
      writesUntil,
      entries: file.requests,
      prefix: file.prefix,
      name: file.name,
      isTaken: (topic) => isReserved(topic, file.prefix, reserved),
      publish: (topic, payload, correlationData) => {
        // Its sender asks again if the broker goes away before.
        this.#link?.publish(topic, payload, { correlationData }).catch(() => {});
      },
      misfits: this.#misfits,
      say,
      onFloor: (floorId) => this.#follow(floorId),
    });
  }

  async run(): Promise<BridgeEnd> {
    const { file, signal, openLink, kept } = this.#options;
    for (const floorId of floorsOfFile(file)) this.#follow(floorId);
    void this.#readAgents();
    this.#watchLost();
    this.#noting = setInterval(() => kept.touch(), NOTE_EVERY_MS).unref();
    this.#link = await openLink({
      onUp: () => void this.#noteUp(),
      onDown: (why) => this.#noteDown(why),
      onMessage: (message) => this.#take(message),
      will: { topic: this.#base, payload: "offline" },
    });
    if (this.#link.isUp) void this.#noteUp();
    const stopped = new Promise<BridgeEnd>((resolve) => {
      const stop = () => resolve("stopped");
      if (signal.aborted) stop();
      signal.addEventListener("abort", stop, { once: true });
    });
    return await Promise.race([stopped, this.#takenOver.promise]);
  }

  /** End the sessions of devices, set flags as if the signals were lost, and say that the bridge is offline. */
  async close(): Promise<void> {
    this.#isEnding = true;
    this.#isOnline = false;
    for (const timer of this.#lost) clearTimeout(timer);
    clearInterval(this.#noting);
    this.#misfits.stop();
    await Promise.all(this.#devices.map((device) => device.close()));
    if (!this.#isTakenOver) {
      await Promise.all(this.#flags.map((row) => this.#giveUpFlag(row)));
      this.#outbox.put(this.#base, { topic: this.#base, payload: "offline", isRetained: true });
    }
    for (let waited = 0; this.#outbox.size > 0 && this.#link?.isUp && waited < LAST_MS; waited += 20) await sleep(20);
    this.#ending.abort();
    await this.#link?.close();
  }

  // The broker.

  async #noteUp(): Promise<void> {
    const { file, lanes } = this.#options;
    const link = this.#link;
    // The first connection may be there before its link is known.
    if (!link?.isUp) return;
    this.#connections += 1;
    const own = this.#connections;
    if (this.#wasDown !== false) lanes.say("the broker is there");
    this.#wasDown = false;
    for (const timer of this.#lost.splice(0)) clearTimeout(timer);
    // Before anything is published on this connection: the broker has that.
    this.#states.forget();
    try {
      await this.#subscribe(link);
      await this.#learn(link);
      // Another connection learns for itself.
      if (this.#isEnding || own !== this.#connections) return;
      this.#states.compare();
      for (const topic of this.#states.topics) this.#clearIfStale(topic);
      this.#followLearned();
      this.#isOnline = true;
      this.#outbox.put(this.#base, { topic: this.#base, payload: "online", isRetained: true });
      this.#outbox.flush();
      for (const device of this.#devices) device.noteLink(true);
      if (file.discovery) this.#publishEntities();
    } catch {
      // The link is down again, and is tried again.
    }
  }

  async #subscribe(link: Link): Promise<void> {
    const { file, lanes } = this.#options;
    // The claim of a later bridge is heard before ours is made.
    await link.publish(`${this.#base}/instance`, this.#instance, { isRetained: true });
    const filters = new Set([
      this.#base,
      `${this.#base}/instance`,
      ...file.flags.map(({ topic }) => topic.filter),
      ...this.#requests.filters,
      ...this.#devices.flatMap(({ topics }) => topics),
    ]);
    const refused = await link.subscribe([...filters]);
    for (const filter of refused) lanes.say(`the broker does not allow this bridge to read ${filter}`);
  }

  /** Learn what the broker keeps of earlier bridges. */
  async #learn(link: Link): Promise<void> {
    const { file, lanes } = this.#options;
    const kept = [`${file.prefix}/floor/#`, discoveryFilter(file.name)];
    const token = randomUUID();
    const sync = `${this.#base}/sync`;
    const arrived = new Promise<void>((resolve) => {
      this.#synced = { token, resolve };
    });
    const refused = await link.subscribe([sync, ...kept]);
    for (const filter of refused) lanes.say(`the broker does not allow this bridge to read ${filter}`);
    // What the broker keeps comes before what is published after the subscription.
    await link.publish(sync, token);
    await Promise.race([arrived, pauseFor(LEARNED_WITHIN_MS)]);
    if (this.#synced?.token !== token) return;
    this.#synced = undefined;
    for (const filter of kept) await link.unsubscribe(filter);
  }

  #noteDown(why: string): void {
    if (this.#wasDown === true) return;
    const isFirst = this.#wasDown === undefined;
    this.#isOnline = false;
    this.#wasDown = true;
    this.#options.lanes.say(`the broker is away, and is tried again: ${why}`);
    for (const device of this.#devices) device.noteLink(false);
    if (!isFirst) this.#watchLost();
  }

  #take(message: BrokerMessage): void {
    const { topic, payload } = message;
    if (topic.startsWith(`${this.#base}/`) || topic === this.#base) return this.#takeOwn(message);
    if (this.#synced) this.#learnTopic(message);
    for (const row of this.#flags) for (const entry of row.entries) this.#takeSignal(row, entry, topic, payload);
    for (const device of this.#devices) device.take(message);
    this.#requests.take(message);
  }

  #takeOwn({ topic, payload }: BrokerMessage): void {
    const text = payload.toString("utf8", 0, 64);
    if (topic === `${this.#base}/sync`) {
      if (text === this.#synced?.token) this.#synced.resolve();
    } else if (topic === `${this.#base}/instance`) {
      if (text !== this.#instance && text !== "") this.#noteTakenOver();
    } else if (topic === this.#base && text === "offline" && this.#isOnline) {
      // The last will of a former connection, which came late.
      this.#outbox.put(this.#base, { topic, payload: "online", isRetained: true });
    }
  }

  #noteTakenOver(): void {
    if (this.#isTakenOver) return;
    this.#isTakenOver = true;
    this.#isOnline = false;
    this.#takenOver.resolve("taken over");
  }

  // What is published.

  #follow(floorId: string): void {
    if (this.#floors.has(floorId) || this.#floors.size >= MAX_FLOORS || this.#ending.signal.aborted) return;
    const own = userAndZoneOf(floorId);
    if (!own) return;
    const { client, file } = this.#options;
    const base = `${file.prefix}/floor/${levelsOfFloor(own.userId, own.zone)}`;
    const stop = new AbortController();
    this.#floors.set(floorId, stop);
    const signal = AbortSignal.any([stop.signal, this.#ending.signal]);
    const listener = {
      onFloor: (floor: FloorView, reasons: ReadonlyMap<string, string>, isFresh: boolean) => {
        this.#states.set(floorId, topicsOfFloor(base, floor, reasons), (topic) => topic.startsWith(`${base}/`));
        if (!isFresh) return;
        void this.#readAgents();
        for (const row of this.#flags) {
          if (row.floor === floorId) this.#stepFlag(row, { type: "read", isOn: floor.flags[row.flag] === true });
        }
      },
      onDecision: (decision: Parameters<typeof publishedDecision>[0]) => {
        // The first decision of a floor does not say that the catalogue is another one.
        const { outcome, challenger } = decision;
        if (outcome === "granted" && !this.#agents.has(challenger.agentId)) void this.#readAgents();
        this.#link?.publish(`${base}/decision`, publishedDecision(decision)).catch(() => {});
      },
      onCatalogue: () => void this.#readAgents(),
      onFault: (error: ClientError | undefined) => this.#noteFault(stop, error),
    };
    void followFloor(client, floorId, listener, signal);
    if (file.discovery) this.#publishEntities();
  }

  #learnTopic({ topic, payload, isRetained }: BrokerMessage): void {
    const { prefix, name } = this.#options.file;
    const isOurs = topic.startsWith(`${prefix}/floor/`) || topic.startsWith(`${DISCOVERY}/`);
    if (!isRetained || !isOurs || this.#states.topics.length >= MAX_LEARNED) return;
    if (topic.startsWith(`${DISCOVERY}/`) && topic.split("/")[2] !== `interlock_${name}`) return;
    this.#states.learn(topic, payload.toString("utf8"));
  }

  /** What an earlier bridge left: topics of sessions that are gone, and of floors that nothing names. */
  #clearIfStale(topic: string): void {
    const { file } = this.#options;
    if (topic.startsWith(`${DISCOVERY}/`)) {
      if (!file.discovery) this.#states.clear(topic);
      return;
    }
    const named = floorOfTopic(topic, file.prefix);
    if (!named) this.#states.clear(topic);
  }

  /** Floors of requests, which the file does not name, are published on after a restart. */
  #followLearned(): void {
    const { prefix } = this.#options.file;
    for (const topic of this.#states.topics) {
      const named = floorOfTopic(topic, prefix);
      if (named) this.#follow(floorOfUser(named.userId, named.zone));
    }
  }

  #publishEntities(): void {
    const { prefix, name } = this.#options.file;
    if (this.#agents.size === 0) return;
    const floors = [...this.#floors.keys()].map(userAndZoneOf).filter((named) => named !== undefined);
    const agents = [...this.#agents.values()];
    const topics = discoveryTopics({ name, prefix, floors, agents });
    this.#states.set(DISCOVERY, topics, (topic) => topic.startsWith(`${DISCOVERY}/`));
  }

  async #readAgents(): Promise<void> {
    try {
      const { agents } = await this.#options.client.listAgents({ signal: this.#ending.signal });
      this.#agents.clear();
      for (const agent of agents) this.#agents.set(agent.id, agent);
      this.#noteFault(this.#agents, undefined);
      if (this.#options.file.discovery) this.#publishEntities();
    } catch (error) {
      if (this.#ending.signal.aborted) return;
      if (!(error instanceof ClientError)) throw error;
      // They are read again with a floor.
      this.#noteFault(this.#agents, error.wantsRepeat ? undefined : error);
    }
  }

  // Flags.

  #takeSignal(row: FlagRow, entry: FlagEntry, topic: string, payload: Buffer): void {
    if (!entry.topic.match(topic)) return;
    const isOn = meets(payload, entry.value);
    if (typeof isOn !== "boolean") return this.#misfits.note(isOn, topic);
    this.#stepFlag(row, { type: "signal", topic: `${row.entries.indexOf(entry)} ${topic}`, isOn });
  }

  #stepFlag(row: FlagRow, event: FlagEvent): void {
    const [machine, order] = stepFlag(row.machine, event);
    row.machine = machine;
    if (order !== undefined) void this.#sendFlag(row, order);
  }

  async #sendFlag(row: FlagRow, isOn: boolean): Promise<void> {
    const { client } = this.#options;
    try {
      await client.changeFlags(row.floor, { [row.flag]: isOn }, { signal: this.#ending.signal });
      this.#noteFault(row, undefined);
      this.#stepFlag(row, { type: "done" });
    } catch (error) {
      if (this.#ending.signal.aborted) return;
      if (!(error instanceof ClientError)) throw error;
      if (!error.wantsRepeat) this.#noteFault(row, error);
      this.#stepFlag(row, { type: "failed" });
      setTimeout(() => this.#stepFlag(row, { type: "try again" }), AGAIN_MS).unref();
    }
  }

  /** From now on no signal comes. */
  #watchLost(): void {
    for (const row of this.#flags) {
      const { to, afterMs } = row.entries[0]!.when_lost;
      if (to === undefined) continue;
      this.#lost.push(setTimeout(() => this.#stepFlag(row, { type: "lost", to }), afterMs).unref());
    }
  }

  async #giveUpFlag({ floor, flag, entries, machine }: FlagRow): Promise<void> {
    const { to } = entries[0]!.when_lost;
    if (to === undefined || machine.wanted === undefined || machine.known === to) return;
    const signal = AbortSignal.timeout(LAST_MS);
    await this.#options.client.changeFlags(floor, { [flag]: to }, { signal }).catch(() => {});
  }

  #noteFault(source: object, error: ClientError | undefined): void {
    const { lanes, explain } = this.#options;
    lanes.fault(source, error && `the node refuses: ${explain(error)}`);
  }
}

function rowsOf(entries: readonly FlagEntry[]): FlagRow[] {
  const byFlag = Map.groupBy(entries, ({ floor, flag }) => `${floor} ${flag}`);
  return [...byFlag.values()].map((own) => {
    const { floor, flag } = own[0]!;
    return { floor, flag, entries: own, machine: newFlagSignal() };
  });
}

function userAndZoneOf(floorId: string): { userId: string; zone: string | undefined } | undefined {
  const parsed = parseFloorId(floorId);
  const userId = parsed && userOf(parsed);
  if (parsed === undefined || userId === undefined) return undefined;
  const zone = parsed.split("/")[1];
  return { userId, zone: zone === undefined ? undefined : decodeURIComponent(zone) };
}

/** The floor of a topic of this bridge; undefined for one that it would never publish. */
function floorOfTopic(topic: string, prefix: string): { userId: string; zone: string | undefined } | undefined {
  if (!topic.startsWith(`${prefix}/floor/`)) return undefined;
  const [user = "", zone = ""] = topic.slice(prefix.length + "/floor/".length).split("/");
  const named = floorOfLevels(user, zone);
  if (!named || levelsOfFloor(named.userId, named.zone) !== `${user}/${zone}`) return undefined;
  return userAndZoneOf(floorOfUser(named.userId, named.zone)) ? named : undefined;
}

/** Topics of the file, which no reply may be published to. */
function reservedTopics({ players, flags }: MqttFile): (topic: string) => boolean {
  const topics = new Set(
    players.flatMap(({ pause, play, volume, playing, alive, title }) =>
      [pause, play, volume, volume?.state, playing, alive, title].flatMap((each) => (each ? [each.topic] : [])),
    ),
  );
  return (topic) => topics.has(topic) || flags.some((entry) => entry.topic.match(topic) !== undefined);
}

function isReserved(topic: string, prefix: string, isOfFile: (topic: string) => boolean): boolean {
  if (topic.startsWith("$") || topic.startsWith(`${DISCOVERY}/`)) return true;
  return (topic.startsWith(`${prefix}/`) && !topic.startsWith(`${prefix}/out/`)) || isOfFile(topic);
}
