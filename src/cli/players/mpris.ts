/**
 * The media players on the session bus (MPRIS, the interface by which desktops control players). A player may own
 * several names, as mpv does; it is one player for each connection.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { isObject } from "../../shared/json.ts";
import { type BusSignal, DESTINATION, SessionBus } from "./session-bus.ts";

const PREFIX = "org.mpris.MediaPlayer2.";
const PATH = "/org/mpris/MediaPlayer2";
const ROOT = "org.mpris.MediaPlayer2";
const PLAYER = "org.mpris.MediaPlayer2.Player";
/** The name of the bridge: one at most on a bus. */
const BRIDGE = "interlock.Players";
const PROPERTIES = "org.freedesktop.DBus.Properties";
/** How long a title or a name may be, in characters, and how much of one is read. */
const MAX_TITLE = 120;
const MAX_READ = 4_096;
/** How long an answer may take before the player is asked again, in ms, and by what the wait grows each time. */
const ANSWERS_WITHIN_MS = 5_000;
const LONGER = 2;
/** How often a player is asked at most: one that is stopped answers all at once when it goes on. */
const MAX_QUESTIONS = 6;

export type PlayerStatus = "playing" | "paused" | "stopped";

/** What a player says of itself. */
export interface MprisPlayer {
  /** The unique name of its connection. */
  readonly owner: string;
  /** Its names without the common prefix, as in `mpv` and `mpv.instance7`. */
  readonly names: ReadonlySet<string>;
  /** Its name for people. */
  readonly identity: string;
  readonly pid: number | undefined;
  readonly canPause: boolean;
  readonly playback: PlayerStatus;
  /** What it plays; undefined if it does not say. */
  readonly title: string | undefined;
}

export interface MprisListener {
  /**
   * A player is there, or a property of it has changed.
   * @param isRepeat it has said of its playback alone, unasked, what it had said before
   */
  onPlayer(player: MprisPlayer, isRepeat: boolean): void;
  /** Its connection has left the bus. */
  onGone(owner: string): void;
}

/** Follows all players of a session bus until the bus is gone or `close` is called. */
export class Mpris {
  readonly #bus: SessionBus;
  readonly #listener: MprisListener;
  readonly #players = new Map<string, Known>();

  private constructor(bus: SessionBus, listener: MprisListener) {
    this.#bus = bus;
    this.#listener = listener;
  }

  /** @throws Error with a sentence if the bus cannot be reached, or another bridge runs on it */
  static async open(listener: MprisListener): Promise<Mpris> {
    // Signals that arrive before the object exists are about players that the list below contains.
    let mpris: Mpris | undefined;
    const bus = await SessionBus.open((signal) => {
      if (mpris) mpris.#receive(signal);
    });
    mpris = new Mpris(bus, listener);
    if (!(await bus.own(BRIDGE))) {
      bus.close();
      throw new Error("another interlock players runs on this session bus");
    }
    await bus.subscribe(`type='signal',interface='${PROPERTIES}',path='${PATH}'`);
    await bus.subscribe(
      `type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged',arg0namespace='${ROOT}'`,
    );
    const names = (await bus.names()).filter((name) => name.startsWith(PREFIX));
    // A player that does not answer keeps none of the others waiting.
    const described = Promise.all(names.map((name) => mpris.#add(name)));
    await Promise.race([described, sleep(ANSWERS_WITHIN_MS, undefined, { ref: false })]);
    return mpris;
  }

  /** Resolves when the connection to the bus has ended. */
  get lost(): Promise<void> {
    return this.#bus.lost;
  }

  get bus(): SessionBus {
    return this.#bus;
  }

  close(): void {
    this.#bus.close();
  }

  /** @throws Error if the player refuses or does not answer */
  async pause(owner: string): Promise<void> {
    await this.#call(owner, "Pause");
  }

  /** @throws Error if the player refuses or does not answer */
  async play(owner: string): Promise<void> {
    await this.#call(owner, "Play");
  }

  async #call(owner: string, member: "Pause" | "Play"): Promise<void> {
    await this.#bus.call({ destination: owner, path: PATH, interface: PLAYER, member });
  }

  async #add(name: string): Promise<void> {
    const owner = await this.#bus.ownerOf(name);
    if (owner === undefined) return;
    const short = name.slice(PREFIX.length);
    const known = this.#players.get(owner);
    if (known) {
      known.player.names.add(short);
      return this.#tell(known);
    }
    // Entered before it is asked, so that its second name and its signals find it.
    const player = { ...UNKNOWN, owner, names: new Set([short]), identity: short };
    const added: Known = { player, changedAt: new Map(), count: 0, isRead: false, isOld: false };
    this.#players.set(owner, added);
    const pid = this.#bus.processOf(owner).then((pid) => this.#change(added, { pid }));
    await Promise.all([pid, this.#describe(added, ROOT), this.#describe(added, PLAYER)]);
  }

  /**
   * Ask a player for its properties until it has answered. An answer counts whenever it comes, but not for what the
   * player has said since the question.
   */
  async #describe(known: Known, of: string): Promise<void> {
    const body = [of];
    const { owner } = known.player;
    const call = { destination: owner, path: PATH, interface: PROPERTIES, member: "GetAll", signature: "s", body };
    let isAnswered = false;
    const isOpen = () => !isAnswered && this.#players.get(owner) === known;
    const ask = async () => {
      const askedAt = known.count;
      const [properties] = await this.#bus.ask(call);
      if (!isOpen() || !isObject(properties)) return;
      isAnswered = true;
      this.#change(known, of === PLAYER ? readPlayer(properties) : readRoot(properties), askedAt);
    };
    for (let question = 0, ms = ANSWERS_WITHIN_MS; question < MAX_QUESTIONS && isOpen(); question += 1, ms *= LONGER) {
      const asked = ask().catch(() => sleep(ms, undefined, { ref: false }));
      await Promise.race([asked, sleep(ms, undefined, { ref: false })]);
    }
  }

  /** Ask anew. What the player says meanwhile is asked for once, afterwards. */
  async #read(known: Known): Promise<void> {
    known.isOld = true;
    if (known.isRead) return;
    known.isRead = true;
    while (known.isOld) {
      known.isOld = false;
      await this.#describe(known, PLAYER);
    }
    known.isRead = false;
  }

  #receive({ sender, path, interface: from, member, signature, body }: BusSignal): void {
    if (from === PROPERTIES && member === "PropertiesChanged" && path === PATH && signature === "sa{sv}as") {
      const [of, changed, invalidated] = body as [string, Record<string, unknown>, string[]];
      const known = this.#players.get(sender);
      if (of !== PLAYER || !known) return;
      this.#change(known, readPlayer(changed), undefined, Object.keys(changed).join() === "PlaybackStatus");
      // A player may say only that a property has another value.
      if (invalidated.includes("PlaybackStatus")) void this.#read(known);
    } else if (member === "NameOwnerChanged" && sender === DESTINATION && signature === "sss") {
      const [name, former, next] = body as [string, string, string];
      if (!name.startsWith(PREFIX)) return;
      if (former !== "") this.#remove(former, name.slice(PREFIX.length));
      if (next !== "") void this.#add(name).catch(() => {});
    }
  }

  #remove(owner: string, short: string): void {
    const { player } = this.#players.get(owner) ?? {};
    if (!player?.names.delete(short) || player.names.size > 0) return;
    this.#players.delete(owner);
    this.#listener.onGone(owner);
  }

  /**
   * @param askedAt for an answer: the number of changes when it was asked for
   * @param isAlone the player has said this unasked, and of its playback alone
   */
  #change(known: Known, change: Partial<MprisPlayer>, askedAt?: number, isAlone = false): void {
    const { player, changedAt } = known;
    if (this.#players.get(player.owner) !== known) return;
    known.count += 1;
    const news = Object.entries(change).filter(
      ([key]) => askedAt === undefined || (changedAt.get(key) ?? 0) <= askedAt,
    );
    for (const [key] of news) changedAt.set(key, known.count);
    const next: Partial<MprisPlayer> = Object.fromEntries(news);
    const isRepeat = isAlone && next.playback === player.playback;
    known.player = { ...player, ...next, names: player.names };
    this.#tell(known, isRepeat);
  }

  /** A player takes part once its process is known, and what it says of its playback. */
  #tell({ player, changedAt }: Known, isRepeat = false): void {
    if (changedAt.has("pid") && changedAt.has("playback")) this.#listener.onPlayer(player, isRepeat);
  }
}

/** A player, and after how many changes each of its properties got its value. */
interface Known {
  player: MprisPlayer & { names: Set<string> };
  readonly changedAt: Map<string, number>;
  count: number;
  /** It is being asked anew, and has to be asked again afterwards. */
  isRead: boolean;
  isOld: boolean;
}

const UNKNOWN = { pid: undefined, canPause: true, playback: "stopped" as PlayerStatus, title: undefined };

/** The value of a variant; the library wraps each property in one. */
function contentOf(variant: unknown): unknown {
  const isVariant = typeof variant === "object" && variant !== null && "value" in variant;
  return isVariant ? variant.value : variant;
}

function readRoot(properties: Record<string, unknown>): Partial<MprisPlayer> {
  const identity = textOf(contentOf(properties["Identity"]));
  return identity === undefined ? {} : { identity };
}

function readPlayer(properties: Record<string, unknown>): Partial<MprisPlayer> {
  const status = contentOf(properties["PlaybackStatus"]);
  const canPause = contentOf(properties["CanPause"]);
  const metadata = contentOf(properties["Metadata"]);
  return {
    ...(typeof status === "string" && { playback: PLAYBACKS.get(status) ?? "stopped" }),
    ...(typeof canPause === "boolean" && { canPause }),
    ...(isObject(metadata) && { title: textOf(contentOf(metadata["xesam:title"])) }),
  };
}

const PLAYBACKS = new Map<string, PlayerStatus>([
  ["Playing", "playing"],
  ["Paused", "paused"],
  ["Stopped", "stopped"],
]);

/**
 * A text of another program, for a line of output and a session's title: without control characters, and cut. Undefined
 * if nothing is left of it.
 */
function textOf(text: unknown): string | undefined {
  if (typeof text !== "string") return undefined;
  const line = text
    .slice(0, MAX_READ)
    .toWellFormed()
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, " ")
    .trim();
  const cut = [...line].slice(0, MAX_TITLE).join("").trim();
  return cut === "" ? undefined : cut;
}
