import { fits, type PlayerMatch } from "../../config/players-file.ts";
import type { Playing } from "../playing/player-session.ts";
import type { Mixer } from "./mixer.ts";
import type { MprisPlayer } from "./mpris.ts";
import type { SoundStream } from "./sound-streams.ts";

/** How long after an order to pause the streams of a player may sound, in ms. */
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

/** Whether a stream is a player's by its process: that of the player or a child. */
export const isOfProcess = ({ pid }: Pick<MprisPlayer, "pid">, { pids }: SoundStream): boolean =>
  pid !== undefined && pids.includes(pid);

/**
 * Whether a stream is a player's by its name: another program sounds for it, or the process of one is unknown. The
 * caller knows that neither of them belongs together with another one by process.
 */
export const isOfName = ({ identity }: Pick<MprisPlayer, "identity">, { application }: SoundStream): boolean =>
  application !== undefined && application.toLowerCase() === identity.toLowerCase();

/** Loudness of one player's streams: the level that the floor demands, and silence where it sounds although paused. */
abstract class BridgedPlayer implements Playing {
  abstract readonly name: string;
  abstract readonly title: string | undefined;
  abstract readonly pid: number | undefined;
  readonly #mixer: Mixer;
  #level: number | undefined = 0;
  #isSilent = false;

  constructor(mixer: Mixer) {
    this.#mixer = mixer;
  }

  abstract play(): void;
  abstract pause(): void;
  abstract owns(stream: SoundStream): boolean;

  /** A former bridge may have changed its streams: they stay as they are until the floor is known. */
  stayAsLeft(): void {
    this.#level = undefined;
    this.#apply();
  }

  setLevel(level: number): void {
    this.#level = level;
    this.#apply();
  }

  free(): void {
    this.silence(false);
  }

  release(): void {
    this.#mixer.release(this);
  }

  /** Wait until its streams are changed. @returns whether it has streams, and all are so many dB quieter */
  isAt(level: number): Promise<boolean> {
    return this.#mixer.isAt(this, level);
  }

  protected silence(isSilent: boolean): void {
    if (this.#isSilent === isSilent) return;
    this.#isSilent = isSilent;
    this.#apply();
  }

  #apply(): void {
    const [level, isSilent] = [this.#level, this.#isSilent];
    const loudness = level === undefined && !isSilent ? undefined : { level: level ?? 0, isSilent };
    this.#mixer.set(this, (stream) => this.owns(stream), loudness);
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
  readonly #owns: (player: BusPlayer, stream: SoundStream) => boolean;
  #waiting: ReturnType<typeof setTimeout> | undefined;

  /** @param owns whether a stream is the player's, as all players on the bus are known */
  constructor(
    mixer: Mixer,
    seen: MprisPlayer,
    orders: PlayerOrders,
    owns: (player: BusPlayer, stream: SoundStream) => boolean,
  ) {
    super(mixer);
    this.seen = seen;
    this.#orders = orders;
    this.#owns = owns;
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
    return this.#owns(this, stream);
  }

  play(): void {
    this.free();
    this.#orders.play(this.seen.owner).catch(() => {});
  }

  override free(): void {
    clearTimeout(this.#waiting);
    super.free();
  }

  /** What still sounds a second later is silenced, whatever the player says of itself. */
  pause(): void {
    clearTimeout(this.#waiting);
    if (!this.seen.canPause) return this.silence(true);
    const silence = () => this.silence(true);
    this.#orders.pause(this.seen.owner).catch(silence);
    this.#waiting = setTimeout(silence, OBEYS_WITHIN_MS);
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
    this.free();
  }

  pause(): void {
    this.silence(true);
  }
}
