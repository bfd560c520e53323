/**
 * A device of the broker that plays for itself: it has a session while it is there and plays, and its topics are given
 * what the floor decides.
 */

import type { Client, ClientError } from "../../client/interlock-client.ts";
import type { PlayerLanes } from "../playing/lanes.ts";
import type { Left, Playback, PlayerState } from "../playing/player-machine.ts";
import { PlayerSession, type Playing } from "../playing/player-session.ts";
import type { BrokerMessage } from "./broker-link.ts";
import { type DeviceVolume, type LeftVolume, leftOf, newDeviceVolume, stepVolume } from "./device-volume.ts";
import type { Misfits } from "./misfits.ts";
import type { DeviceEntry, DeviceOrder } from "./mqtt-file.ts";
import type { Outbox } from "./outbox.ts";
import { meets, readValue } from "./values.ts";
import { isVolume } from "./volumes.ts";

/** How long a device may take to obey, in ms, before the order is given again. */
const OBEYS_WITHIN_MS = 1_500;
/** How often a device is told to play that does not. A pause is ordered until it is obeyed. */
const MAX_PLAY_ORDERS = 5;
/** How long a device has, after the broker was away, to say that it is there, in ms. */
const RETURNS_WITHIN_MS = 5_000;

/** What the next bridge has to know of a device. */
export interface KeptDevice {
  left?: Left | undefined;
  volume?: LeftVolume | undefined;
}

export interface DeviceParts {
  client: Client;
  outbox: Outbox;
  lanes: PlayerLanes;
  misfits: Misfits;
  /** The lease of an agent's sessions in ms; undefined: none, or not known yet. */
  leaseMsOf: (agentId: string) => number | undefined;
  /** Keep it on disk, before anything is done; undefined: nothing is to be kept. */
  keep: (kept: KeptDevice | undefined) => void;
  onFault: (error: ClientError | undefined) => void;
}

type Timer = ReturnType<typeof setTimeout>;

export class Device implements Playing {
  readonly #entry: DeviceEntry;
  readonly #parts: DeviceParts;
  #session: PlayerSession | undefined;
  /** Sessions that are being ended. */
  readonly #ending = new Set<Promise<void>>();
  /** What an earlier bridge left; the first session takes it. */
  #former: Left | undefined;
  #left: Left | undefined;
  #volume: DeviceVolume | undefined;
  /** Whether its own topic says that it is there; undefined: it has not said, or has no such topic. */
  #isAlive: boolean | undefined;
  /** What it said last. */
  #playback: Playback = "gone";
  /** An order that it has not obeyed yet. */
  #order: { to: "playing" | "paused"; count: number } | undefined;
  /**
   * It is paused in place of being quieter. Its session does not hear of that pause: until it plays again it counts as
   * playing.
   */
  #isHushed = false;
  /** What the floor demands, in dB. */
  #level = 0;
  #title: string | undefined;
  #isClosed = false;
  readonly #timers: Partial<Record<"order" | "volume" | "silence" | "return", Timer>> = {};

  constructor(entry: DeviceEntry, kept: KeptDevice | undefined, parts: DeviceParts) {
    this.#entry = entry;
    this.#parts = parts;
    this.#former = kept?.left;
    this.#left = kept?.left;
    this.#volume = entry.volume && newDeviceVolume(entry.volume.scale, kept?.volume);
  }

  get name(): string {
    return this.#entry.id;
  }

  get title(): string | undefined {
    return this.#title;
  }

  /** The topics in which it says how it is. */
  get topics(): string[] {
    const { playing, alive, title, volume } = this.#entry;
    return [playing, alive, title, volume?.state].flatMap((each) => (each ? [each.topic] : []));
  }

  /** A message of one of its topics, or of another one, which is left alone. */
  take(message: BrokerMessage): void {
    const { playing, alive, title, volume } = this.#entry;
    const { topic, payload, isRetained } = message;
    if (topic === alive?.topic) this.#noteAlive(payload);
    if (topic === title?.topic) this.#noteTitle(payload);
    if (topic === volume?.state.topic) this.#noteVolume(payload);
    if (topic === playing.topic) this.#notePlayback(payload, isRetained);
    if (!isRetained && this.topics.includes(topic)) this.#noteSign();
  }

  /** The broker is there again: a device that was there says so, or the broker has kept it. */
  noteLink(isUp: boolean): void {
    clearTimeout(this.#timers.return);
    if (!isUp) {
      this.#isAlive = undefined;
      clearTimeout(this.#timers.silence);
      return;
    }
    if (this.#session && !this.#entry.alive) return this.#watchSilence();
    if (!this.#session && this.#former === undefined) return;
    this.#timers.return = setTimeout(() => this.#giveUp(), RETURNS_WITHIN_MS).unref();
  }

  play(): void {
    if (this.#mustHush()) return this.#hush();
    this.#isHushed = false;
    this.#tell("playing");
  }

  pause(): void {
    const wasHushed = this.#isHushed;
    this.#isHushed = false;
    this.#tell("paused");
    if (wasHushed && this.#playback === "paused") this.#session?.observe("paused");
  }

  /** It sounds whenever it plays. */
  free(): void {}

  setLevel(level: number): void {
    this.#level = level;
    if (this.#volume) this.#turn({ type: "level", level });
    if (!this.#mustHush()) {
      if (this.#isHushed) this.#unhush();
    } else if (this.#playback === "playing" || this.#order?.to === "playing") this.#hush();
  }

  /** The bridge ends. Resolves when its session has ended, or the node does not answer. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const timer of Object.values(this.#timers)) clearTimeout(timer);
    const session = this.#session;
    this.#session = undefined;
    await Promise.all([session?.leave(), ...this.#ending]);
    if (this.#isHushed) this.setLevel(0);
    else if (this.#volume) this.#turn({ type: "level", level: 0 });
    for (const timer of Object.values(this.#timers)) clearTimeout(timer);
  }

  #noteAlive(payload: Buffer): void {
    const { alive } = this.#entry;
    const is = meets(payload, alive!);
    // A last will may be empty, or of any form.
    this.#isAlive = is === true;
    if (!this.#isAlive) return this.#part("the device is gone");
    if (this.#playback !== "gone") this.#observe();
  }

  #noteTitle(payload: Buffer): void {
    const reading = readValue(payload, this.#entry.title!);
    if (!reading.ok) return this.#parts.misfits.note(reading.misfit, this.#entry.title!.topic);
    this.#title = String(reading.value).slice(0, 256).trim() || undefined;
    if (this.#session && this.#playback !== "gone") this.#observe();
  }

  #noteVolume(payload: Buffer): void {
    const { state, scale } = this.#entry.volume!;
    const reading = readValue(payload, state);
    const { misfits } = this.#parts;
    if (!reading.ok) return misfits.note(reading.misfit, state.topic);
    const value = typeof reading.value === "string" && reading.value !== "" ? Number(reading.value) : reading.value;
    if (typeof value !== "number" || !isVolume(value, scale)) return misfits.note("no_volume", state.topic);
    this.#turn({ type: "reported", volume: value });
    // It was paused because its volume was not known.
    if (this.#isHushed && !this.#mustHush()) this.#unhush();
  }

  #notePlayback(payload: Buffer, isRetained: boolean): void {
    const { playing, alive } = this.#entry;
    const reading = readValue(payload, playing);
    if (!reading.ok) return this.#parts.misfits.note(reading.misfit, playing.topic);
    // What the broker keeps of a device that does not say that it is there may be of any age.
    if (isRetained && !alive && !this.#session && this.#former === undefined) return;
    const { path, is, stopped } = playing;
    if (meets(payload, { path, is }) === true) this.#playback = "playing";
    else this.#playback = meets(payload, { path, is: stopped }) === true ? "stopped" : "paused";
    if (alive && this.#isAlive !== true) return;
    this.#observe();
  }

  /** Tell the session how the device plays. */
  #observe(): void {
    if (this.#isClosed) return;
    const playback = this.#playback;
    if (playback === this.#order?.to || playback === "stopped") this.#endOrder();
    // Its user has stopped it: nothing is left to play again.
    if (playback === "stopped") this.#isHushed = false;
    this.#session ??= this.#begin();
    this.#watchSilence();
    if (this.#isHushed && playback === "paused") return;
    if (this.#isHushed && playback === "playing") {
      // Its user's hand does not make it heard.
      if (this.#mustHush()) this.#tell("paused");
      else this.#isHushed = false;
      return;
    }
    this.#session.observe(playback as Exclude<Playback, "gone">);
  }

  #begin(): PlayerSession {
    const { client, lanes, onFault } = this.#parts;
    const { agent: agentId, user: userId, zone } = this.#entry;
    const left = this.#former;
    this.#former = undefined;
    const wanted = { agentId, userId, ...(zone !== undefined && { zone }) };
    const session: PlayerSession = new PlayerSession(
      client,
      wanted,
      this,
      {
        onState: (state: PlayerState, level: number, cause: string) => {
          if (this.#session === session) lanes.show(this, this.name, state, level, cause);
        },
        onDenied: (say: string) => lanes.deny(this.name, say),
        onFault,
        onLeft: (next: Left | undefined) => {
          if (this.#session !== session && this.#session !== undefined) return;
          this.#left = next;
          this.#keep();
        },
      },
      left,
    );
    return session;
  }

  /** It is gone: its session ends at once. What it does when it comes back is its user's doing. */
  #part(why: string): void {
    this.#playback = "gone";
    this.#endOrder();
    this.#isHushed = false;
    this.#level = 0;
    clearTimeout(this.#timers.silence);
    clearTimeout(this.#timers.return);
    if (this.#volume) this.#turn({ type: "gone" });
    const session = this.#session;
    if (!session) return;
    this.#parts.lanes.say(`${this.name}: ${why}`);
    session.observe("gone");
    this.#session = undefined;
    const ended = session.leave();
    this.#ending.add(ended);
    void ended.finally(() => this.#ending.delete(ended));
    this.#parts.lanes.leave(this);
  }

  /** A device that was there before the broker or the bridge was away, and has not come back. */
  #giveUp(): void {
    if (this.#session) {
      if (this.#isAlive === undefined) this.#part("it has not come back");
      return;
    }
    const sessionId = this.#former?.sessionId;
    this.#former = undefined;
    this.#left = undefined;
    this.#keep();
    // Its lease ends it, if the node does not answer.
    if (sessionId !== undefined) this.#parts.client.archiveSession(sessionId).catch(() => {});
  }

  /** A device without a topic that says that it is there is there as long as it says anything. */
  #noteSign(): void {
    if (!this.#entry.alive) this.#watchSilence();
  }

  #watchSilence(): void {
    const { alive, agent } = this.#entry;
    clearTimeout(this.#timers.silence);
    const leaseMs = alive ? undefined : this.#parts.leaseMsOf(agent);
    const isToPlay = this.#playback === "playing" || this.#order?.to === "playing";
    if (leaseMs === undefined || !isToPlay || !this.#session) return;
    this.#timers.silence = setTimeout(() => this.#part("it has said nothing for its lease"), leaseMs).unref();
  }

  #tell(to: "playing" | "paused"): void {
    this.#order = { to, count: 1 };
    this.#giveOrder();
    this.#watchSilence();
  }

  #giveOrder(): void {
    const { to } = this.#order!;
    this.#send("order", to === "playing" ? this.#entry.play : this.#entry.pause);
    clearTimeout(this.#timers.order);
    this.#timers.order = setTimeout(() => this.#orderAgain(), OBEYS_WITHIN_MS).unref();
  }

  /** A device that was not connected at that moment has not heard the order. */
  #orderAgain(): void {
    if (!this.#order || this.#order.to === this.#playback || this.#isClosed) return;
    if (this.#order.to === "playing" && this.#order.count >= MAX_PLAY_ORDERS) return this.#endOrder();
    this.#order.count += 1;
    this.#giveOrder();
  }

  #endOrder(): void {
    this.#order = undefined;
    clearTimeout(this.#timers.order);
  }

  #hush(): void {
    if (this.#isHushed) return;
    this.#isHushed = true;
    this.#tell("paused");
    // To its session it plays: the session may have ordered it to.
    queueMicrotask(() => this.#isHushed && this.#session?.observe("playing"));
  }

  /** Until it plays, its session does not hear that it is paused. */
  #unhush(): void {
    if (this.#playback === "playing") this.#isHushed = false;
    this.#tell("playing");
  }

  /** Whether it is to be quieter and cannot be. */
  #mustHush(): boolean {
    return this.#level < 0 && this.#volume?.own === undefined;
  }

  #turn(event: Parameters<typeof stepVolume>[1]): void {
    const former = this.#volume!;
    const [next, order] = stepVolume(former, event);
    this.#volume = next;
    // On disk before it is done.
    if (JSON.stringify(leftOf(next)) !== JSON.stringify(leftOf(former))) this.#keep();
    if (order !== undefined) {
      this.#send("volume", { topic: this.#entry.volume!.topic, payload: String(order), retain: false });
    } else if (next.pending === former.pending) return;
    clearTimeout(this.#timers.volume);
    if (next.pending === undefined) return;
    this.#timers.volume = setTimeout(() => this.#turn({ type: "order is old" }), OBEYS_WITHIN_MS).unref();
  }

  #send(what: string, { topic, payload, retain }: DeviceOrder): void {
    this.#parts.outbox.put(`device ${this.#entry.id} ${what}`, { topic, payload, isRetained: retain });
  }

  #keep(): void {
    const volume = this.#volume && leftOf(this.#volume);
    this.#parts.keep(this.#left || volume ? { left: this.#left, volume } : undefined);
  }
}
