import { BOUNDS } from "../../../src/config/bounds.ts";
import type { LogEntry } from "../../../src/protocol/event.ts";
import { retryLine } from "../../../src/protocol/frames.ts";
import type { FloorId } from "../../../src/protocol/ids.ts";
import type { Clock } from "../../../src/shared/ports/clock.ts";
import { sleep } from "../../../src/shared/waiting.ts";
import type { Cluster } from "../nodes/cluster.ts";
import type { GatewaySide, Opening } from "../nodes/gateway-side.ts";
import type { NodeProcess } from "../nodes/node.ts";
import type { World } from "../world.ts";
import { Wire } from "./wire.ts";

const TRAVEL_MS = 3;
/** The time without data after which a stream is given up, in ms; a working one sends something every 15 s. */
const SILENCE_MS = 20_000;
/**
 * The time after which a gateway has cut off a reader that does not read, even if the gateway slept meanwhile, in ms.
 */
const STALLED_MS = 32_000;
/** The longest pause before a cut-off reader reconnects in fair weather, in ms. */
const FAIR_AWAY_MS = 400;
const LONG_AWAY_MS = 1_000;

/** Checks what a reader gets. Throws `Broken` for a violation. */
export interface Reading {
  /** The floor whose sessions, or which itself, is read. */
  readonly floorId: FloorId;
  open(gateway: GatewaySide, position: string | undefined, wire: Wire): Promise<Opening>;
  /** A new connection: the text of unfinished messages is sent again. */
  reconnect(): void;
  /** A frame with its position. */
  takeLogged(id: string, data: string): void;
  /** False while the stream has to bring a position before it can be used. Default: true. */
  readonly isPlaced?: boolean;
  /** A position without an event. */
  takePlace?(id: string): void;
  /** A frame without a position. */
  takeLive(type: string, data: unknown): void;
  /** The end of the stream. */
  end(answer: "over" | "unknown"): void;
  /** Whether it has everything that was committed and will ever be sent to it. */
  readonly isComplete: boolean;
  /** Whether it must get this event, and has not yet. */
  lacks(floorId: FloorId, entry: LogEntry): boolean;
  /** Its progress, for reports. */
  readonly standing: string;
}

/**
 * A reader of one stream that is cut off, and reconnects at another gateway with its position. It must get every event
 * once, in order, as it was committed.
 */
export class Reader {
  readonly reading: Reading;
  readonly name: string;
  readonly #world: World;
  readonly #cluster: Cluster;
  #wire: Wire | undefined;
  #connections = 0;
  #rest = "";
  #lastWordAt = 0;
  #position: string | undefined;
  #isOver = false;
  #isClosed = false;
  /** The gateway has taken this connection for a stream. */
  #hasBegun = false;
  /** The time at which this connection began, with a position or without needing one. */
  #openSince: number | undefined;
  /** Called when it has begun. */
  onOpen: () => void = () => {};

  constructor(world: World, cluster: Cluster, reading: Reading, name: string) {
    this.#world = world;
    this.#cluster = cluster;
    this.reading = reading;
    this.name = name;
    void this.#connect();
  }

  get connections(): number {
    return this.#connections;
  }

  /** The time of the connection, as far as the reader knows. */
  get openSince(): number | undefined {
    return this.#openSince;
  }

  get isComplete(): boolean {
    return this.#isOver || this.reading.isComplete;
  }

  /** Whether it does not read at the moment. */
  get isStuffed(): boolean {
    return this.#wire?.isStuffed === true;
  }

  get standing(): string {
    return `${this.name} of ${this.reading.standing}${this.#isOver ? ", the end" : ""}`;
  }

  /** It is cut off, and reconnects. */
  cut(): void {
    const { chance, theme, isFair } = this.#world;
    const vanishes = !isFair && chance.percent(theme.vanishes);
    this.#drop(vanishes ? chance.below(theme.awayMs) : 0);
    void this.#return();
  }

  /** It does not read for a while. */
  stuff(forMs: number): void {
    const wire = this.#wire;
    wire?.stuff(true);
    this.#world.clock.after(forMs, () => wire?.stuff(false));
  }

  close(): void {
    this.#isClosed = true;
    this.#drop();
  }

  /** @param unnoticedMs the time until its gateway notices */
  #drop(unnoticedMs = 0): void {
    this.#openSince = undefined;
    this.#wire?.leave(unnoticedMs);
    this.#wire = undefined;
  }

  async #return(): Promise<void> {
    const { clock, chance, theme, isFair } = this.#world;
    const awayMs = 20 + chance.below(isFair ? FAIR_AWAY_MS : theme.awayMs);
    if (awayMs > LONG_AWAY_MS) this.#world.count("readers that were away for long");
    await sleep(clock as Clock, awayMs);
    if (!this.#wire) await this.#connect();
  }

  async #connect(): Promise<void> {
    const { chance, clock, trace } = this.#world;
    while (!this.#isClosed && !this.#isOver && !this.#world.broken) {
      const node = this.#cluster.pickGateway();
      if (node) {
        trace.add(this.name, `goes to ${node.life.name} with ${this.#position ?? "nothing"}`);
        const wire = this.#newWire(node.life);
        const answer = await this.#request(node, wire);
        if (this.#wire !== wire || answer === "open") return;
        this.#drop();
        if (answer) this.#end(answer);
      }
      await sleep(clock as Clock, 100 + chance.below(500));
    }
  }

  #newWire(life: NodeProcess["life"]): Wire {
    const { clock } = this.#world;
    this.#connections += 1;
    if (this.#connections > 1) this.#world.count("readers that came back");
    this.#rest = "";
    this.#hasBegun = false;
    this.#lastWordAt = clock.now();
    this.reading.reconnect();
    const wire: Wire = new Wire(life, clock, {
      receive: (text) => {
        if (this.#wire === wire) this.#receive(text);
      },
      overrun: (bytes) => this.#world.break(`${this.name} takes nothing, and ${bytes} bytes wait for it`),
      ended: () => {
        if (this.#wire !== wire) return;
        if (wire.isStuffed) this.#world.count("readers that were cut off for taking nothing");
        this.cut();
      },
    });
    this.#wire = wire;
    this.#watchSilence(wire);
    return wire;
  }

  #watchSilence(wire: Wire): void {
    this.#world.clock.after(SILENCE_MS / 4, () => {
      if (this.#wire !== wire) return;
      const now = this.#world.clock.now();
      const unreadMs = now - (wire.unreadSince ?? now);
      if (unreadMs > STALLED_MS) this.#world.break(`${this.name} took nothing for ${unreadMs} ms, and was not cut off`);
      // The gateway may send: the reader does not read.
      if (wire.isStuffed) this.#lastWordAt = now;
      if (now - this.#lastWordAt > SILENCE_MS) this.cut();
      else this.#watchSilence(wire);
    });
  }

  /** Undefined when the other end is gone. */
  #request(node: NodeProcess, wire: Wire): Promise<Opening | undefined> {
    const { clock, chance } = this.#world;
    const travel = () => 1 + chance.below(TRAVEL_MS);
    return new Promise((resolve) => {
      node.life.onDeath(() => clock.after(travel(), () => resolve(undefined)));
      clock.after(SILENCE_MS, () => resolve("open"));
      clock.after(travel(), () =>
        node.life.enter(() => {
          this.reading.open(node.gateway!, this.#position, wire).then(
            (answer) => {
              if (node.life.acts()) clock.after(answer === "open" ? 0 : travel(), () => resolve(answer));
            },
            (error) => this.#world.break(`a stream could not be opened: ${(error as Error).stack}`),
          );
        }),
      );
    });
  }

  #end(answer: "over" | "unknown"): void {
    this.#world.expect(() => this.reading.end(answer));
    this.#isOver = true;
    this.#drop();
  }

  #receive(text: string): void {
    this.#lastWordAt = this.#world.clock.now();
    const frames = (this.#rest + text).split("\n\n");
    this.#rest = frames.pop()!;
    this.#hasBegun ||= text.includes(retryLine(BOUNDS.retryMs));
    for (const frame of frames) {
      const wire = this.#wire;
      this.#take(frame);
      if (this.#wire !== wire) return;
    }
    if (this.#hasBegun && this.reading.isPlaced !== false) this.#open();
  }

  #take(frame: string): void {
    const [, id] = /^id: (.*)$/m.exec(frame) ?? [];
    const [, data] = /^data: (.*)$/m.exec(frame) ?? [];
    if (id !== undefined) this.#position = id;
    if (data === undefined) return id === undefined ? undefined : this.#takePlace(id);
    const { type, data: what } = JSON.parse(data) as { type: string; data: unknown };
    if (id !== undefined && type === "agent_list") this.#takePlace(id);
    else if (id !== undefined) return this.#world.expect(() => this.reading.takeLogged(id, data));
    if (type !== "bye") return this.#world.expect(() => this.reading.takeLive(type, what));
    if ((what as { reason: string }).reason === "ended") this.#end("over");
  }

  #takePlace(id: string): void {
    this.#world.expect(() => this.reading.takePlace?.(id));
  }

  #open(): void {
    if (this.#openSince !== undefined) return;
    this.#openSince = this.#world.clock.now();
    this.onOpen();
  }
}
