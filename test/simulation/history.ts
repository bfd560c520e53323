import { must } from "../../src/policy/arrangement-check.ts";
import type { LogEntry } from "../../src/protocol/event.ts";
import type { FloorId, SessionId } from "../../src/protocol/ids.ts";
import { sleep } from "../../src/shared/waiting.ts";
import { Client } from "./clients/client.ts";
import { drawCommand, flag, rename } from "./clients/commands.ts";
import { ConnectionReading } from "./clients/connection-reading.ts";
import { LogReading } from "./clients/log-reading.ts";
import { BEAT_MS, Participants } from "./clients/participants.ts";
import { Reader, type Reading } from "./clients/reader.ts";
import { visit } from "./clients/visit.ts";
import { Cluster } from "./nodes/cluster.ts";
import { clearUp, drawWeather, strike } from "./weather.ts";
import { type Staging, World } from "./world.ts";

/** The result of a history. */
export interface Outcome {
  seed: number;
  /** The violated invariant. */
  broken: string | undefined;
  world: World;
}

/** The longest time until everything has settled in fair weather, in ms. */
const REST_MS = 180_000;
/** The interval between checks of that, in ms. */
const LOOK_MS = 2_000;
/** The age at which a due run request counts as lost, in ms. */
const OVERDUE_MS = 45_000;
const MAX_READERS = 6;
/** The time after which other nodes own the floors of a node that cannot reach the store, in ms. */
const TAKEN_OVER_MS = 20_000;
/** The number of checks after which a client must have its answer, or have given up. */
const ANSWERED_LOOKS = 60;
/**
 * The longest time until an event is with its readers in fair weather, in ms: much shorter than the followers'
 * reconciliation interval.
 */
const PROMPT_MS = 250;

/** Play one history. The same seed plays the same history. */
export async function playHistory(seed: number, staging: Staging = {}): Promise<Outcome> {
  const world = new World(seed, staging);
  const onRejection = (error: unknown) =>
    world.break(`a rejection nobody handles: ${(error as Error)?.stack ?? error}`);
  const { warn } = console;
  console.warn = (...words: unknown[]) => world.break(`somebody writes to the console: ${words.join(" ")}`);
  process.on("unhandledRejection", onRejection);
  try {
    await new History(world).play();
  } catch (error) {
    world.break(`the history broke: ${(error as Error).stack}`);
  } finally {
    process.off("unhandledRejection", onRejection);
    console.warn = warn;
  }
  return { seed, broken: world.broken, world };
}

class History {
  readonly #world: World;
  readonly #cluster: Cluster;
  readonly #clients: Client[];
  readonly #readers: Reader[] = [];
  readonly #connections = new Map<FloorId, ConnectionReading>();
  readonly #promptness: Promptness;
  readonly #participants: Participants;

  constructor(world: World) {
    this.#world = world;
    world.queue.start();
    this.#cluster = new Cluster(world);
    this.#clients = world.floorIds.flatMap((floorId, floor) =>
      Array.from({ length: 1 + world.chance.below(2) }, (_, nth) => {
        return new Client(world, this.#cluster, floorId, `c${floor}${nth}-`);
      }),
    );
    this.#promptness = new Promptness(world, this.#readers);
    this.#participants = new Participants(world, this.#cluster);
  }

  async play(): Promise<void> {
    const phases = [
      () => this.#storm(),
      async () => clearUp(this.#world, this.#cluster),
      () => this.#afterStorm(),
      () => this.#rest(),
      () => this.#end(),
    ];
    for (const phase of phases) if (this.#world.broken === undefined) await phase();
  }

  /** Commands, readers and faults at once. */
  async #storm(): Promise<void> {
    const { chance, clock, floorIds, theme } = this.#world;
    const [least, most] = theme.stormMs;
    const forMs = least + chance.below(most - least);
    const isOver = () => this.#world.isFair;
    await this.#pass(300);
    drawWeather(this.#world);
    const paceMs = chance.pick(theme.paceMs);
    const every = async (ms: number, work: () => void) => {
      for (;;) {
        await sleep(clock, chance.below(2 * ms));
        if (isOver() || this.#world.broken) return;
        work();
      }
    };
    for (const client of this.#clients) void every(paceMs, () => void this.#planned(client));
    for (const floorId of floorIds) {
      if (this.#world.catalog.hasLeases) void every(BEAT_MS / 2, () => this.#participants.takeTurn(floorId));
      const reading = new ConnectionReading(floorId, this.#world);
      this.#connections.set(floorId, reading);
      this.#read(floorId);
      this.#add(reading);
    }
    void every(chance.pick(theme.strikeMs), () => strike(this.#world, this.#cluster));
    void every(800, () => this.#disturbReader());
    await this.#pass(forMs);
  }

  #afterStorm(): Promise<void> {
    const { isolates, errs } = this.#world.theme;
    if (isolates) return this.#isolate();
    return errs ? this.#misdate() : this.#calm();
  }

  /** The database's clock errs once more while nothing else fails: every command is answered meanwhile. */
  async #misdate(): Promise<void> {
    const { databaseClock, clock } = this.#world;
    await this.#pass(Math.max(4_500, databaseClock.mayErrAt - clock.now()));
    strike(this.#world, this.#cluster, "clockErrs");
    for (let round = 0; round < 4; round++) {
      for (const client of this.#clients) void this.#planned(client);
      await this.#pass(2_000);
    }
  }

  /** Cut one orchestrator off from the store: others take its floors, and every command is answered. */
  async #isolate(): Promise<void> {
    const { chance, trace, cutOff } = this.#world;
    await this.#pass(4_500);
    const { nodeName } = chance.pick(this.#cluster.processes.filter((process) => process.isOrchestrator));
    trace.add(nodeName, "is cut off from the store");
    this.#world.count("orchestrators that only the store did not answer");
    cutOff.add(nodeName);
    await this.#pass(TAKEN_OVER_MS);
    for (const client of this.#clients) void this.#planned(client);
    for (let looks = 0; looks < ANSWERED_LOOKS; looks++) {
      await this.#pass(LOOK_MS);
      if (this.#world.broken || this.#clients.every(({ waiting }) => waiting === 0)) break;
    }
    trace.add(nodeName, "reaches the store again");
    cutOff.clear();
  }

  /** A commit now reaches every reader at once, including those that have just connected. */
  async #calm(): Promise<void> {
    const { chance } = this.#world;
    await this.#pass(4_500 + chance.below(500));
    // Without further events, no later event repairs what the storm left behind.
    if (chance.percent(25)) return;
    this.#promptness.begin();
    for (const client of this.#clients) void this.#planned(client);
    for (let round = 0; round < 3; round++) {
      const client = chance.pick(this.#clients);
      const readers = this.#readers.filter(({ reading }) => reading.floorId === client.floorId);
      for (const reader of readers) {
        reader.onOpen = () => this.#disturb(client, reader);
        reader.cut();
      }
      await this.#pass(800);
    }
    for (const reader of this.#readers) reader.onOpen = () => {};
    this.#promptness.end();
  }

  /** Change a session or floor that a reader has just started to read. */
  #disturb(client: Client, { reading }: Reader): void {
    const { chance, clock, watch, memory } = this.#world;
    const { floorId } = reading;
    const sessionId = reading instanceof LogReading ? reading.sessionId : memory.sessionsOf(floorId)[0]?.id;
    if (chance.percent(50) || (sessionId !== undefined && watch.endOf(sessionId) !== undefined)) return;
    clock.after(chance.below(40), () => {
      const commandId = client.newCommandId();
      const planned = sessionId === undefined ? flag(commandId) : rename(this.#world, floorId, commandId, sessionId);
      void client.see(planned, commandId);
    });
  }

  /** No more commands: all work in progress must end. */
  async #rest(): Promise<void> {
    for (let restedMs = 0; restedMs < REST_MS; restedMs += LOOK_MS) {
      await this.#pass(LOOK_MS);
      if (this.#world.broken || this.#unrest() === undefined) return;
    }
    this.#world.break(`it did not come to rest: ${this.#unrest()}`);
  }

  /** The pending work, if any. */
  #unrest(): string | undefined {
    const { memory, watch, clock } = this.#world;
    if (this.#clients.some(({ waiting }) => waiting > 0)) return "a client waits for its answer";
    const late = this.#readers.find((reader) => !reader.isComplete);
    if (late) return late.standing;
    const overdue = [...memory.runRequests].find(({ dueAt }) => dueAt < clock.now() - OVERDUE_MS);
    if (overdue) return `run request ${overdue.id} is not carried out`;
    const missed = memory.alarms.find(({ dueAt }) => dueAt < clock.now() - OVERDUE_MS);
    if (missed) return `the alarm of ${missed.id} has not come`;
    for (const { floorId } of watch.floors) {
      for (const { id, state, activity } of memory.sessionsOf(floorId)) {
        if ((state === "active" || state === "ducked") && (activity === "running" || activity === "waiting"))
          return `${id} is ${activity}`;
      }
    }
    return undefined;
  }

  async #end(): Promise<void> {
    const { watch, chance } = this.#world;
    if (this.#world.broken) return;
    this.#world.expect(() => this.#checkDrafts());
    // Everything ends, so that every session's stream ends.
    if (chance.percent(50)) {
      for (const client of this.#clients) await this.#endAll(client);
      await this.#rest();
      if (this.#world.broken) return;
      for (const { openRuns, floorId } of watch.floors) {
        this.#world.expect(() => must(openRuns.length === 0, () => `${floorId}: runs never ended: ${openRuns}`));
      }
    }
    for (const client of this.#clients) this.#world.expect(() => client.check());
    this.#world.expect(() => this.#participants.check());
    for (const reader of this.#readers) reader.close();
    const { processes } = this.#cluster;
    const stopped = Promise.all(processes.map((process) => process.stop()));
    let isStopped = false;
    void stopped.then(() => {
      isStopped = true;
    });
    await this.#pass(20_000);
    this.#world.expect(() => {
      must(isStopped, () => "a node does not stop");
      const left = processes.flatMap((process) => process.leftovers());
      must(left.length === 0, () => `something is left: ${left}`);
    });
  }

  /** Every session of a floor is archived or deleted, by commands that are answered. */
  async #endAll(client: Client): Promise<void> {
    const { memory, chance } = this.#world;
    const isOver = () => this.#unrest() === undefined;
    for (const { id, state } of memory.sessionsOf(client.floorId)) {
      if (state === "archived" && chance.percent(50)) continue;
      const type = chance.percent(50) ? ("session.delete" as const) : ("session.archive" as const);
      void client.see({ command: { type, sessionId: id } }, client.newCommandId());
    }
    for (let looks = 0; looks < 10 && !isOver(); looks++) await this.#pass(1_000);
  }

  /** A reader's text of an unfinished message is the stored text, or a little longer. */
  #checkDrafts(): void {
    const { memory } = this.#world;
    for (const reader of this.#readers) {
      const { reading, openSince } = reader;
      if (
        !(reading instanceof LogReading) ||
        reading.sessionId === undefined ||
        openSince === undefined ||
        reader.isStuffed
      )
        continue;
      for (const { id, status, content } of memory.messagesOf(reading.sessionId)) {
        if (status !== "running") continue;
        const text = reading.textOf(id) ?? "";
        must(text.startsWith(content), () => `${reader.standing} and has ${JSON.stringify(text)} of ${id}: ${content}`);
      }
    }
  }

  async #planned(client: Client): Promise<void> {
    const commandId = client.newCommandId();
    const planned = drawCommand(this.#world, client.floorId, commandId);
    const reply = await client.see(planned, commandId);
    if (!reply?.ok || !planned.mark?.startsWith("created")) return;
    const { chance, theme } = this.#world;
    if (!chance.percent(theme.binds)) this.#read(client.floorId, planned.sessionId);
    else void bindMade(this.#world, this.#cluster, this.#connections.get(client.floorId)!, planned.sessionId!);
  }

  #read(floorId: FloorId, sessionId?: SessionId): void {
    if (this.#readers.length >= MAX_READERS) return;
    const target = { floorId, ...(sessionId !== undefined && { sessionId }) };
    this.#add(new LogReading(target, this.#world.watch));
  }

  #add(reading: Reading): void {
    this.#readers.push(new Reader(this.#world, this.#cluster, reading, `r${this.#readers.length}`));
  }

  #disturbReader(): void {
    const { chance, theme } = this.#world;
    if (this.#readers.length === 0) return;
    const reader = chance.pick(this.#readers);
    if (chance.percent(theme.cuts)) reader.cut();
    else reader.stuff(chance.below(theme.stuffMs));
  }

  #pass(ms: number): Promise<void> {
    const { clock } = this.#world;
    return clock.runUntil(clock.now() + ms, () => this.#world.broken !== undefined);
  }
}

/** Bind a new session to a connection: the request is repeated at any gateway until it succeeds. */
async function bindMade(
  world: World,
  cluster: Cluster,
  reading: ConnectionReading,
  sessionId: SessionId,
): Promise<void> {
  const { chance, clock, trace } = world;
  const { id, floorId } = reading;
  if (!id || !reading.beginBinding(sessionId)) return;
  while (world.broken === undefined) {
    const node = cluster.pickGateway();
    const bind = async () => {
      return (await node!.gateway!.bind(id, sessionId, floorId)) ? "bound" : "no room";
    };
    const outcome = node ? await visit(world, node, bind) : "cut";
    if (outcome !== "cut") {
      trace.add("binder", `${sessionId} at ${id}: ${outcome}`);
      return outcome === "bound" ? reading.endBinding(sessionId) : reading.giveUpBinding(sessionId);
    }
    await sleep(clock, 50 + chance.below(400));
  }
}

/**
 * A reader that got its position misses no event from then on. The next reconciliation would deliver an event that a
 * follower missed, so a late event is the only symptom.
 */
class Promptness {
  readonly #world: World;
  readonly #readers: readonly Reader[];

  constructor(world: World, readers: readonly Reader[]) {
    this.#world = world;
    this.#readers = readers;
  }

  begin(): void {
    this.#world.watch.onEvent = (floorId, entry) => this.#follow(floorId, entry);
  }

  end(): void {
    this.#world.watch.onEvent = () => {};
  }

  #follow(floorId: FloorId, entry: LogEntry): void {
    const { clock } = this.#world;
    for (const reader of this.#readers) {
      if (reader.openSince === undefined || reader.isStuffed || !reader.reading.lacks(floorId, entry)) continue;
      const { connections } = reader;
      clock.after(PROMPT_MS, () => {
        if (reader.connections !== connections || reader.openSince === undefined) return;
        this.#world.expect(() => {
          const describe = () =>
            `${reader.standing} ${PROMPT_MS} ms after ${entry.floorSeq} was committed on ${floorId}`;
          must(!reader.reading.lacks(floorId, entry), describe);
        });
      });
    }
  }
}
