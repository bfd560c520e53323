/**
 * `interlock players`: media players of this machine take part on a floor. Each player that the file names has a
 * session while it plays; a refused or paused one is paused, a ducked one is made quieter, and what the user does in a
 * player is a request.
 */

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Client, ClientError } from "../../client/interlock-client.ts";
import type { PlayersFile } from "../../config/players-file.ts";
import type { PlayerLanes } from "../playing/lanes.ts";
import type { Left, PlayerState } from "../playing/player-machine.ts";
import { PlayerSession } from "../playing/player-session.ts";
import { BusPlayer, isOfName, isOfProcess, matchesPlayer, matchesStream, StreamPlayer } from "./bridged-player.ts";
import { KeptLevels, type KeptPlayer } from "./kept-levels.ts";
import { Mixer } from "./mixer.ts";
import { Mpris, type MprisPlayer } from "./mpris.ts";
import { openDial } from "./sound-dials.ts";
import { type SoundStream, SoundStreams } from "./sound-streams.ts";

/** The pause before the session bus is connected again, in ms. */
const AGAIN_MS = 1_000;
/** How long players have to appear on a bus that was started again, in ms. */
const BUS_PATIENCE_MS = 3_000;
/** After a longer absence of the bridge nothing comes back by itself, in ms: nobody expects it any more. */
const MAX_ABSENCE_MS = 600_000;
/** How often the bridge notes that it runs, in ms. */
const NOTE_EVERY_MS = 60_000;

export interface PlayersOptions {
  client: Client;
  file: PlayersFile;
  userId: string;
  /** What was changed on this machine is kept here until it is put back. */
  keptPath: string;
  lanes: PlayerLanes;
  /** Why the node does not take requests, as a sentence. */
  explain: (error: ClientError) => string;
  signal: AbortSignal;
}

/**
 * Run until the signal is aborted; then put every level back and end the sessions.
 * @throws Error with a sentence if the session bus or the sound server cannot be reached at the start
 */
export async function bridgePlayers(options: PlayersOptions): Promise<void> {
  const bridge = new Bridge(options);
  try {
    await bridge.run();
  } finally {
    await bridge.close();
  }
}

interface Participant<P extends BusPlayer | StreamPlayer = BusPlayer | StreamPlayer> {
  player: P;
  session: PlayerSession;
}

class Bridge {
  readonly #options: PlayersOptions;
  readonly #kept: KeptLevels;
  readonly #mixer: Mixer;
  /** By the unique name of their connection. */
  readonly #onBus = new Map<string, Participant<BusPlayer>>();
  /** Players that the file names and those that it does not, so that no other player gets their streams. */
  readonly #seen = new Map<string, MprisPlayer>();
  /** By the number of their stream. */
  readonly #streams = new Map<number, Participant<StreamPlayer>>();
  /** Players of an earlier bridge that still run. */
  readonly #former: KeptPlayer[] = [];
  #listed: readonly SoundStream[] = [];
  /** Players whose bus has gone. */
  readonly #lost: Participant<BusPlayer>[] = [];
  #mpris: Mpris | undefined;
  #sound: SoundStreams | undefined;
  #noting: ReturnType<typeof setInterval> | undefined;

  constructor(options: PlayersOptions) {
    this.#options = options;
    this.#kept = new KeptLevels(options.keptPath);
    this.#mixer = new Mixer(this.#kept, (why) => options.lanes.say(why));
  }

  async run(): Promise<void> {
    const { signal, lanes } = this.#options;
    for (const player of this.#kept.players) {
      const isRunning = startOf(player.pid) === player.startedAt;
      if (isRunning) this.#former.push({ ...player, isPausedHere: player.isPausedHere && isRecent(player) });
      else this.#kept.dropPlayer(player);
    }
    // First, because the bus has one bridge at most: a second one must not put back what the first one changed.
    this.#mpris = await this.#openBus();
    this.#mixer.start(await openDial());
    this.#sound = await SoundStreams.open((streams) => this.#noteStreams(streams));
    this.#noting = setInterval(() => this.#noteRunning(), NOTE_EVERY_MS).unref();
    lanes.say("players take part");
    const stopped = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
    while (this.#mpris && !signal.aborted) {
      await Promise.race([this.#mpris.lost, stopped]);
      if (signal.aborted) return;
      lanes.say("the session bus is gone; waiting for it");
      await this.#reopenBus(signal);
    }
  }

  /** What is kept is as old as the bridge's end, however that comes. */
  #noteRunning(): void {
    for (const player of this.#kept.players)
      if (player.isPausedHere) this.#kept.putPlayer({ ...player, seenAt: uptimeMs() });
  }

  async close(): Promise<void> {
    clearInterval(this.#noting);
    const participants = [...this.#onBus.values(), ...this.#streams.values(), ...this.#lost];
    await Promise.all(participants.map(({ session }) => session.leave()));
    for (const { player } of participants) player.release();
    await this.#mixer.restore();
    this.#sound?.close();
    this.#mpris?.close();
  }

  #openBus(): Promise<Mpris> {
    return Mpris.open({
      onPlayer: (player, isRepeat) => this.#notePlayer(player, isRepeat),
      onGone: (owner) => this.#losePlayer(owner),
    });
  }

  /** Players that do not appear on the new bus in time no longer take part. */
  async #reopenBus(signal: AbortSignal): Promise<void> {
    this.#mpris = undefined;
    this.#lost.push(...this.#onBus.values());
    this.#onBus.clear();
    this.#seen.clear();
    while (!signal.aborted) {
      await sleep(AGAIN_MS, undefined, { signal, ref: false }).catch(() => {});
      this.#mpris = await this.#openBus().catch(() => undefined);
      if (!this.#mpris) continue;
      this.#options.lanes.say("the session bus is there again");
      setTimeout(() => {
        for (const participant of this.#lost.splice(0)) this.#part(participant);
      }, BUS_PATIENCE_MS).unref();
      return;
    }
  }

  #notePlayer(seen: MprisPlayer, isRepeat: boolean): void {
    this.#seen.set(seen.owner, seen);
    const known = this.#onBus.get(seen.owner) ?? this.#returned(seen);
    if (known) {
      known.player.seen = seen;
      return known.session.observe(seen.playback, isRepeat);
    }
    // Its process is known once it has described itself. VLC has a connection for each of its control interfaces.
    if (seen.pid === undefined || this.#hasSession(seen.pid)) return;
    const entry = this.#options.file.players.find(({ match }) => matchesPlayer(match, seen));
    if (!entry) return;
    const orders = {
      pause: async (owner: string) => await this.#present().pause(owner),
      play: async (owner: string) => await this.#present().play(owner),
    };
    const left = this.#takeFormer(seen.pid);
    const owns = (player: BusPlayer, stream: SoundStream) => this.#ownerOf(stream)?.owner === player.seen.owner;
    const player = new BusPlayer(this.#mixer, seen, orders, owns);
    const participant = this.#begin(player, entry.agent, left);
    this.#onBus.set(seen.owner, participant);
    participant.session.observe(seen.playback);
  }

  #hasSession(pid: number): boolean {
    return [...this.#onBus.values()].some(({ player }) => player.pid === pid);
  }

  /** A player whose connection ended with the former bus. */
  #returned(seen: MprisPlayer): Participant<BusPlayer> | undefined {
    const at = this.#lost.findIndex(({ player }) => player.pid === seen.pid);
    if (at < 0) return undefined;
    const [participant] = this.#lost.splice(at, 1);
    this.#onBus.set(seen.owner, participant!);
    return participant;
  }

  #present(): Mpris {
    if (!this.#mpris) throw new Error("the session bus is gone");
    return this.#mpris;
  }

  #losePlayer(owner: string): void {
    this.#seen.delete(owner);
    const participant = this.#onBus.get(owner);
    if (!participant) return;
    this.#onBus.delete(owner);
    this.#part(participant);
  }

  /**
   * The player of the bus whose stream this is. One whose sound another program makes, or whose process is unknown, is
   * recognised by its name.
   */
  #ownerOf(stream: SoundStream): MprisPlayer | undefined {
    const players = [...this.#seen.values()];
    const byProcess = players.find((player) => isOfProcess(player, stream));
    if (byProcess) return byProcess;
    const sounds = (player: MprisPlayer) => this.#listed.some((each) => isOfProcess(player, each));
    return players.find((player) => isOfName(player, stream) && !sounds(player));
  }

  #noteStreams(streams: readonly SoundStream[]): void {
    this.#listed = streams;
    this.#mixer.note(streams);
    const there = new Set(streams.map(({ index }) => index));
    for (const [index, participant] of this.#streams) {
      if (there.has(index)) continue;
      this.#streams.delete(index);
      this.#part(participant);
    }
    for (const stream of streams) this.#noteStream(stream);
  }

  #noteStream(stream: SoundStream): void {
    const known = this.#streams.get(stream.index);
    if (known) {
      known.player.stream = stream;
      return known.session.observe(stream.isCorked ? "paused" : "playing");
    }
    if (this.#ownerOf(stream)) return;
    const entry = this.#options.file.players.find(({ match }) => matchesStream(match, stream));
    if (!entry) return;
    const left = this.#takeFormer(stream.pids[0]);
    const participant = this.#begin(new StreamPlayer(this.#mixer, stream), entry.agent, left);
    this.#streams.set(stream.index, participant);
    participant.session.observe(stream.isCorked ? "paused" : "playing");
  }

  /** What an earlier bridge left of a player; the first player of the process gets it. */
  #takeFormer(pid: number | undefined): Left | undefined {
    const startedAt = pid === undefined ? undefined : startOf(pid);
    const at = this.#former.findIndex((each) => each.pid === pid && each.startedAt === startedAt);
    return at < 0 ? undefined : this.#former.splice(at, 1)[0];
  }

  #begin<P extends BusPlayer | StreamPlayer>(player: P, agentId: string, left: Left | undefined): Participant<P> {
    const { client, userId, lanes, file, explain } = this.#options;
    if (left) player.stayAsLeft();
    const { pid } = player;
    const startedAt = pid === undefined ? undefined : startOf(pid);
    const listener = {
      onState: this.#shower(player),
      onDenied: (say: string) => {
        lanes.deny(player.name, say);
        if (file.notify) void this.#notify(player.name, say);
      },
      onFault: (error: ClientError | undefined) =>
        lanes.fault(player, error && `players go on without the floor: ${explain(error)}`),
      onLeft: (next: Left | undefined) => {
        if (pid === undefined || startedAt === undefined) return;
        if (next) this.#kept.putPlayer({ pid, startedAt, ...next, seenAt: uptimeMs() });
        else this.#kept.dropPlayer({ pid, startedAt });
      },
    };
    return { player, session: new PlayerSession(client, { agentId, userId }, player, listener, left) };
  }

  /** Shows the states of a player. That it is quieter is shown once it is, unless another state has followed. */
  #shower(player: BusPlayer | StreamPlayer): (state: PlayerState, level: number, cause: string) => void {
    const { lanes } = this.#options;
    let count = 0;
    return (state, level, cause) => {
      count += 1;
      const own = count;
      if (state !== "ducked") return lanes.show(player, player.name, state, level, cause);
      void player.isAt(level).then((isDone) => {
        if (own === count) lanes.show(player, player.name, state, level, cause, isDone);
      });
    };
  }

  #part({ player, session }: Participant): void {
    session.observe("gone");
    player.release();
    this.#options.lanes.leave(player);
  }

  /** A desktop without notifications shows none. */
  async #notify(name: string, say: string): Promise<void> {
    const call = {
      destination: "org.freedesktop.Notifications",
      path: "/org/freedesktop/Notifications",
      interface: "org.freedesktop.Notifications",
      member: "Notify",
      signature: "susssasa{sv}i",
      body: ["interlock", 0, "media-playback-pause", name, say, [], {}, -1],
    };
    await this.#mpris?.bus.call(call).catch(() => {});
  }
}

/** The machine's own clock, in ms: all processes since its start share it, and nobody sets it. */
const uptimeMs = (): number => Math.floor(Number(process.hrtime.bigint() / 1_000_000n));

/** Whether the bridge was away only for so long that what it paused is expected back. */
const isRecent = ({ seenAt }: KeptPlayer): boolean => uptimeMs() - seenAt < MAX_ABSENCE_MS;

/** When a process began, in ticks since the machine's start; undefined for a process that has ended. */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}
