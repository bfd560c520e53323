/**
 * The media players on the session bus (MPRIS, the interface by which desktops control players). A player may own
 * several names, as mpv does; it is one player for each connection.
 */

import type { BusSignal } from "./session-bus.ts";
import { SessionBus } from "./session-bus.ts";

const PREFIX = "org.mpris.MediaPlayer2.";
const PATH = "/org/mpris/MediaPlayer2";
const ROOT = "org.mpris.MediaPlayer2";
const PLAYER = "org.mpris.MediaPlayer2.Player";
/** The name of the bridge: one at most on a bus. */
const BRIDGE = "interlock.Players";
const PROPERTIES = "org.freedesktop.DBus.Properties";
/** How long a player without a title may be called, in UTF-16 units. */
const MAX_TITLE = 200;

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
  /** A player is there, or a property of it has changed. */
  onPlayer(player: MprisPlayer): void;
  /** Its connection has left the bus. */
  onGone(owner: string): void;
}

/** Follows all players of a session bus until the bus is gone or `close` is called. */
export class Mpris {
  readonly #bus: SessionBus;
  readonly #listener: MprisListener;
  readonly #players = new Map<string, MprisPlayer & { names: Set<string> }>();

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
    for (const name of await bus.names()) if (name.startsWith(PREFIX)) await mpris.#add(name);
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
      known.names.add(short);
      return this.#listener.onPlayer(known);
    }
    // Entered before it is asked, so that its second name and its signals find it.
    const player = { ...UNKNOWN, owner, names: new Set([short]), identity: short };
    this.#players.set(owner, player);
    const [root, own, pid] = await Promise.all([
      this.#propertiesOf(owner, ROOT),
      this.#propertiesOf(owner, PLAYER),
      this.#bus.processOf(owner),
    ]);
    if (!this.#players.has(owner)) return;
    const identity = contentOf(root["Identity"]);
    this.#change(owner, {
      pid,
      ...(typeof identity === "string" && { identity: shorten(identity) }),
      ...readPlayer(own),
    });
  }

  async #propertiesOf(owner: string, of: string): Promise<Record<string, unknown>> {
    const call = {
      destination: owner,
      path: PATH,
      interface: PROPERTIES,
      member: "GetAll",
      signature: "s",
      body: [of],
    };
    return await this.#bus.call(call).then(
      ([properties]) => (properties ?? {}) as Record<string, unknown>,
      () => ({}),
    );
  }

  #receive({ sender, interface: from, member, body }: BusSignal): void {
    if (from === PROPERTIES && member === "PropertiesChanged") {
      const [of, changed, invalidated] = body as [string, Record<string, unknown>, string[]];
      if (of !== PLAYER || !this.#players.has(sender)) return;
      this.#change(sender, readPlayer(changed));
      // A player may say only that a property has another value.
      if (invalidated?.includes("PlaybackStatus")) void this.#read(sender);
    } else if (member === "NameOwnerChanged") {
      const [name, former, next] = body as [string, string, string];
      if (!name.startsWith(PREFIX)) return;
      if (former !== "") this.#remove(former, name.slice(PREFIX.length));
      if (next !== "") void this.#add(name);
    }
  }

  async #read(owner: string): Promise<void> {
    this.#change(owner, readPlayer(await this.#propertiesOf(owner, PLAYER)));
  }

  #remove(owner: string, short: string): void {
    const player = this.#players.get(owner);
    if (!player?.names.delete(short) || player.names.size > 0) return;
    this.#players.delete(owner);
    this.#listener.onGone(owner);
  }

  #change(owner: string, change: Partial<MprisPlayer>): void {
    const player = this.#players.get(owner);
    if (!player) return;
    const next = { ...player, ...change, names: player.names };
    this.#players.set(owner, next);
    this.#listener.onPlayer(next);
  }
}

const UNKNOWN = { pid: undefined, canPause: true, playback: "stopped" as PlayerStatus, title: undefined };

/** The value of a variant; the library wraps each property in one. */
function contentOf(variant: unknown): unknown {
  const isVariant = typeof variant === "object" && variant !== null && "value" in variant;
  return isVariant ? variant.value : variant;
}

function readPlayer(properties: Record<string, unknown>): Partial<MprisPlayer> {
  const status = contentOf(properties["PlaybackStatus"]);
  const canPause = contentOf(properties["CanPause"]);
  const metadata = contentOf(properties["Metadata"]) as Record<string, unknown> | undefined;
  const title = metadata && contentOf(metadata["xesam:title"]);
  return {
    ...(typeof status === "string" && { playback: PLAYBACKS.get(status) ?? "stopped" }),
    ...(typeof canPause === "boolean" && { canPause }),
    ...(metadata && { title: typeof title === "string" && title !== "" ? shorten(title) : undefined }),
  };
}

const PLAYBACKS = new Map<string, PlayerStatus>([
  ["Playing", "playing"],
  ["Paused", "paused"],
  ["Stopped", "stopped"],
]);

/** A text of another program, for a line of output: without control characters, and cut. */
const shorten = (text: string): string => text.replace(/[\p{Cc}\p{Cf}]+/gu, " ").slice(0, MAX_TITLE);
