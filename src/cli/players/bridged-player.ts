import { fits, type PlayerMatch } from "../../config/players-file.ts";
import type { Mixer } from "./mixer.ts";
import type { MprisPlayer } from "./mpris.ts";
import type { Playing } from "./player-session.ts";
import type { SoundStream } from "./sound-streams.ts";

/** A player that still plays this long after an order to pause is muted, in ms. */
const OBEYS_WITHIN_MS = 1_000;

/** Whether an entry of the file is about this player. */
export function matchesPlayer({ mpris, identity, role, application }: PlayerMatch, player: MprisPlayer): boolean {
  if (role !== undefined || application !== undefined) return false;
  if (identity !== undefined && !fits(identity, player.identity)) return false;
  return mpris === undefined || [...player.names].some((name) => fits(mpris, name));
}

/** Whether an entry of the file is about a stream that belongs to no player. */
export function matchesStream({ mpris, identity, role, application }: PlayerMatch, stream: SoundStream): boolean {
  if (mpris !== undefined || identity !== undefined) return false;
  if (role !== undefined && !fits(role, stream.role ?? "")) return false;
  return application === undefined || fits(application, stream.application ?? "");
}

/**
 * Whether a stream is a player's: one of its process or of a child, or one with its name where the process is unknown.
 */
export function isStreamOf({ pid, identity }: Pick<MprisPlayer, "pid" | "identity">, stream: SoundStream): boolean {
  if (pid !== undefined && stream.pids.length > 0) return stream.pids.includes(pid);
  return stream.application !== undefined && stream.application.toLowerCase() === identity.toLowerCase();
}

/** Loudness of one player's streams: the level that the floor demands, and silence where the player cannot pause. */
abstract class BridgedPlayer implements Playing {
  abstract readonly name: string;
  abstract readonly title: string | undefined;
  abstract readonly pid: number | undefined;
  readonly #mixer: Mixer;
  #level = 0;
  #isSilent = false;

  constructor(mixer: Mixer) {
    this.#mixer = mixer;
  }

  abstract play(): void;
  abstract pause(): void;
  abstract owns(stream: SoundStream): boolean;

  setLevel(level: number): void {
    this.#level = level;
    this.#apply();
  }

  release(): void {
    this.#mixer.release(this);
  }

  protected silence(isSilent: boolean): void {
    if (this.#isSilent === isSilent) return;
    this.#isSilent = isSilent;
    this.#apply();
  }

  #apply(): void {
    this.#mixer.set(this, (stream) => this.owns(stream), { level: this.#level, isSilent: this.#isSilent });
  }
}

/** Orders to a player, by the unique name of its connection. They reject if it refuses or does not answer. */
export interface PlayerOrders {
  pause(owner: string): Promise<void>;
  play(owner: string): Promise<void>;
}

/** A player of the session bus. */
export class BusPlayer extends BridgedPlayer {
  /** As it described itself last. */
  seen: MprisPlayer;
  readonly #orders: PlayerOrders;
  #waiting: ReturnType<typeof setTimeout> | undefined;

  constructor(mixer: Mixer, seen: MprisPlayer, orders: PlayerOrders) {
    super(mixer);
    this.seen = seen;
    this.#orders = orders;
  }

  get name(): string {
    return this.seen.identity;
  }

  get title(): string | undefined {
    return this.seen.title;
  }

  get pid(): number | undefined {
    return this.seen.pid;
  }

  owns(stream: SoundStream): boolean {
    return isStreamOf(this.seen, stream);
  }

  play(): void {
    clearTimeout(this.#waiting);
    this.silence(false);
    this.#orders.play(this.seen.owner).catch(() => {});
  }

  pause(): void {
    clearTimeout(this.#waiting);
    if (!this.seen.canPause) return this.silence(true);
    const mute = () => {
      if (this.seen.playback === "playing") this.silence(true);
    };
    this.#orders.pause(this.seen.owner).catch(mute);
    this.#waiting = setTimeout(mute, OBEYS_WITHIN_MS);
  }

  override release(): void {
    clearTimeout(this.#waiting);
    super.release();
  }
}

/** A program without controls: it is silenced by its volume alone. */
export class StreamPlayer extends BridgedPlayer {
  stream: SoundStream;

  constructor(mixer: Mixer, stream: SoundStream) {
    super(mixer);
    this.stream = stream;
  }

  get name(): string {
    return this.stream.application ?? this.stream.role ?? `stream ${this.stream.index}`;
  }

  get title(): string | undefined {
    return undefined;
  }

  get pid(): number | undefined {
    return this.stream.pids[0];
  }

  owns(stream: SoundStream): boolean {
    return stream.index === this.stream.index;
  }

  play(): void {
    this.silence(false);
  }

  pause(): void {
    this.silence(true);
  }
}
