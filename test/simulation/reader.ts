import { type Clock, sleep } from "../../src/protocol/clock.ts";
import type { Delta, LogEntry } from "../../src/protocol/event.ts";
import type { Message } from "../../src/protocol/message.ts";
import { parseLogPosition } from "../../src/protocol/position.ts";
import { AccumulatedTexts } from "./accumulated-texts.ts";
import type { Cluster } from "./cluster.ts";
import type { Target } from "./gateway-side.ts";
import { must } from "./must.ts";
import { Wire } from "./wire.ts";
import type { World } from "./world.ts";

const TRAVEL_MS = 3;
/** A stream that says nothing for so long is given up; a sound one says something every 15 s. */
const SILENCE_MS = 20_000;
/** Frames of a floor's stream. */
const SHOWN = new Set(["session_created", "session_transition", "arbitration", "agent_switched", "floor_updated"]);

/** A frame as it comes: its position, if it has one, and what stands behind `data:`. */
interface Frame {
  id?: string | undefined;
  data?: string | undefined;
}

/**
 * Somebody who reads one stream from its beginning: is cut off, comes back at another gateway with the position it has,
 * and must be given every event once, in order, as it was committed.
 */
export class Reader {
  readonly target: Target;
  readonly name: string;
  readonly #world: World;
  readonly #cluster: Cluster;
  readonly #texts = new AccumulatedTexts();
  #wire: Wire | undefined;
  #connections = 0;
  #rest = "";
  #lastWordAt = 0;
  #position: string | undefined;
  /** The place of the last event: in the session's log, or in the floor's. */
  #place = 0;
  #isPaused = false;
  /** It was given the end of the session. */
  #hasEnd = false;
  #isOver = false;
  #isClosed = false;
  /** Since when this connection was told where it stands. */
  #openSince: number | undefined;
  /** Called when it is told where it stands. */
  onOpen: () => void = () => {};

  constructor(world: World, cluster: Cluster, target: Target, name: string) {
    this.#world = world;
    this.#cluster = cluster;
    this.target = target;
    this.name = name;
    void this.#connect();
  }

  get connections(): number {
    return this.#connections;
  }

  /** Since when it is connected, as far as it knows. */
  get openSince(): number | undefined {
    return this.#openSince;
  }

  get place(): number {
    return this.#place;
  }

  /** Whether its stream tells of such events. */
  isShown(type: LogEntry["type"]): boolean {
    return this.target.sessionId !== undefined || SHOWN.has(type);
  }

  /** Whether it has all that was committed and will ever be shown to it. */
  get isComplete(): boolean {
    const { sessionId, floorId } = this.target;
    const { watch } = this.#world;
    if (sessionId !== undefined) {
      const isAtHead = this.#place === (watch.logOf(sessionId).at(-1)?.seq ?? 0);
      return this.#isOver || (isAtHead && watch.endOf(sessionId) === undefined);
    }
    const last = watch.floor(floorId).log.findLast(({ type }) => SHOWN.has(type));
    return this.#place >= (last?.floorSeq ?? 0);
  }

  /** What it lacks, for people. */
  get standing(): string {
    const { sessionId, floorId } = this.target;
    return `${this.name} of ${sessionId ?? floorId} stands at ${this.#place}${this.#isOver ? ", the end" : ""}`;
  }

  /** It is cut off, and comes back. */
  cut(): void {
    this.#drop();
    void this.#return();
  }

  /** It takes nothing for a while. */
  stuff(forMs: number): void {
    const wire = this.#wire;
    wire?.stuff(true);
    this.#world.clock.after(forMs, () => wire?.stuff(false));
  }

  close(): void {
    this.#isClosed = true;
    this.#drop();
  }

  /** What it put together of a message that is being written. */
  textOf(messageId: string): string | undefined {
    return this.#texts.of(messageId);
  }

  #drop(): void {
    this.#openSince = undefined;
    this.#wire?.leave();
    this.#wire = undefined;
  }

  async #return(): Promise<void> {
    await sleep(this.#world.clock as Clock, 20 + this.#world.chance.below(400));
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
        if (this.#wire !== wire) return;
        if (answer === "open") return;
        this.#drop();
        this.#world.expect(() => this.#mayEnd(answer));
        if (answer === "over") this.#isOver = true;
      }
      await sleep(clock as Clock, 100 + chance.below(500));
    }
  }

  #newWire(life: ConstructorParameters<typeof Wire>[0]): Wire {
    const { clock } = this.#world;
    this.#connections += 1;
    if (this.#connections > 1) this.#world.count("readers that came back");
    this.#rest = "";
    this.#lastWordAt = clock.now();
    this.#texts.reconnect();
    const wire: Wire = new Wire(life, clock, {
      receive: (text) => {
        if (this.#wire === wire) this.#receive(text);
      },
      ended: () => {
        if (this.#wire === wire) this.cut();
      },
    });
    this.#wire = wire;
    this.#watchSilence(wire);
    return wire;
  }

  #watchSilence(wire: Wire): void {
    this.#world.clock.after(SILENCE_MS / 4, () => {
      if (this.#wire !== wire) return;
      if (this.#world.clock.now() - this.#lastWordAt > SILENCE_MS) this.cut();
      else this.#watchSilence(wire);
    });
  }

  /** Undefined when the other end is gone. */
  #request(node: ReturnType<Cluster["pick"]>, wire: Wire): Promise<"open" | "over" | "unknown" | undefined> {
    const { clock, chance } = this.#world;
    const travel = () => 1 + chance.below(TRAVEL_MS);
    return new Promise((resolve) => {
      node.life.onDeath(() => clock.after(travel(), () => resolve(undefined)));
      clock.after(SILENCE_MS, () => resolve("open"));
      clock.after(travel(), () =>
        node.life.enter(() => {
          node.gateway!.open(this.target, this.#position, wire).then(
            (answer) => {
              if (node.life.acts()) clock.after(answer === "open" ? 0 : travel(), () => resolve(answer));
            },
            (error) => this.#world.break(`a stream could not be opened: ${(error as Error).stack}`),
          );
        }),
      );
    });
  }

  #mayEnd(answer: "over" | "unknown" | undefined): void {
    const { sessionId } = this.target;
    if (answer === undefined || sessionId === undefined) return;
    must(answer !== "unknown", () => `${this.name} was told that there is no ${sessionId}`);
    const last = this.#world.watch.logOf(sessionId).at(-1)?.seq;
    must(this.#hasEnd, () => `${this.standing} and was told that nothing more comes; its log ends with ${last}`);
  }

  #receive(text: string): void {
    this.#lastWordAt = this.#world.clock.now();
    const frames = (this.#rest + text).split("\n\n");
    this.#rest = frames.pop()!;
    for (const frame of frames) {
      const wire = this.#wire;
      this.#world.expect(() => this.#take(readFrame(frame)));
      if (this.#wire !== wire) return;
    }
  }

  #take({ id, data }: Frame): void {
    if (id !== undefined) this.#position = id;
    if (data === undefined) {
      if (id === undefined || this.#openSince !== undefined) return;
      this.#openSince = this.#world.clock.now();
      this.onOpen();
      return;
    }
    if (id !== undefined) return this.#takeLogged(id, data);
    const { type, data: what } = JSON.parse(data) as { type: string; data: unknown };
    if (type === "delta") this.#texts.add(what as Delta);
    else if (type === "message") this.#texts.show(what as Message);
    else if (type === "bye") this.#takeBye(what as { reason: string });
    else must(false, () => `${this.name} was given ${data}`);
    if (type === "delta") must(!this.#isPaused, () => `${this.standing} and was given a piece of a paused session`);
  }

  #takeBye({ reason }: { reason: string }): void {
    if (reason !== "ended") return;
    this.#mayEnd("over");
    this.#isOver = true;
    this.#drop();
  }

  #takeLogged(id: string, data: string): void {
    const place = parseLogPosition(id)?.seq ?? 0;
    must(place > this.#place, () => `${this.standing} and was given position ${id} with ${data}`);
    const entry = this.#entryAt(place);
    const { watch } = this.#world;
    // What came of a session in the commit that deleted it was told, and is not kept.
    must(
      entry ? watch.textOf(entry) === data : this.#isGoneAt(place),
      () => `${this.standing} and was given ${data.slice(0, 300)}`,
    );
    for (const skipped of this.#between(place)) {
      const isGone = skipped.sessionId !== undefined && watch.endOf(skipped.sessionId) === "deleted";
      must(isGone, () => `${this.standing} and was given ${place}; it lacks ${watch.textOf(skipped).slice(0, 300)}`);
    }
    this.#place = place;
    if (this.target.sessionId !== undefined) this.#follow(JSON.parse(data) as { type: string; data: object });
  }

  get #log(): readonly LogEntry[] {
    const { sessionId, floorId } = this.target;
    const { watch } = this.#world;
    if (sessionId !== undefined) return watch.logOf(sessionId);
    return watch.floor(floorId).log.filter(({ type }) => SHOWN.has(type));
  }

  readonly #placeOf = ({ seq, floorSeq }: LogEntry): number => (this.target.sessionId === undefined ? floorSeq : seq!);

  #entryAt(place: number): LogEntry | undefined {
    return this.#log.find((entry) => this.#placeOf(entry) === place);
  }

  #between(place: number): LogEntry[] {
    return this.#log.filter((entry) => this.#placeOf(entry) > this.#place && this.#placeOf(entry) < place);
  }

  /** Whether nothing is kept of this place because it went with its session. */
  #isGoneAt(place: number): boolean {
    const { sessionId, floorId } = this.target;
    const { watch } = this.#world;
    if (sessionId !== undefined)
      return watch.endOf(sessionId) === "deleted" && place < watch.logOf(sessionId).at(-1)!.seq!;
    const { log, head } = watch.floor(floorId);
    return place <= head && !log.some(({ floorSeq }) => floorSeq === place);
  }

  #follow({ type, data }: { type: string; data: object }): void {
    if (type === "message") this.#texts.finish(data as Message);
    else if (type === "complete") this.#texts.endRun((data as { runId: string }).runId);
    else if (type === "session_transition") {
      const { to } = data as { to: string };
      this.#isPaused = to === "paused";
      this.#hasEnd = to === "archived" || to === "deleted";
    }
  }
}

function readFrame(frame: string): Frame {
  const [, id] = /^id: (.*)$/m.exec(frame) ?? [];
  const [, data] = /^data: (.*)$/m.exec(frame) ?? [];
  return { id, data };
}
