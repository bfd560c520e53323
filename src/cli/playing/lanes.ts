import type { Paint, Style } from "../paint.ts";
import type { PlayerState } from "./player-machine.ts";

/** How a lane shows each state. */
const SIGNS: Readonly<Record<PlayerState, { sign: string; style: Style; text: string }>> = {
  none: { sign: "·", style: "quiet", text: "no longer takes part" },
  active: { sign: "▶", style: "active", text: "plays" },
  ducked: { sign: "▁", style: "ducked", text: "plays quieter" },
  paused: { sign: "‖", style: "paused", text: "is paused" },
  waits: { sign: "…", style: "waiting", text: "waits for its turn" },
};
/** Lanes beyond these are not drawn, so that a line fits on a terminal. */
const MAX_LANES = 12;

/** The output of the bridge: a line for each change, with a lane for each player. */
export class PlayerLanes {
  readonly #write: (line: string) => void;
  readonly #paint: Paint;
  readonly #now: () => Date;
  readonly #lanes: { player: object; state: PlayerState }[] = [];
  /** What the node refuses, by who asked: a player, a floor or a flag. */
  readonly #faults = new Map<object, string>();

  constructor(write: (line: string) => void, paint: Paint, now: () => Date = () => new Date()) {
    this.#write = write;
    this.#paint = paint;
    this.#now = now;
  }

  /**
   * A player has another state. `cause` is the floor's reason; it may be empty.
   * @param isDone whether a ducked player is quieter by that level. It is not, for example, if its streams are unknown.
   */
  show(player: object, name: string, state: PlayerState, level: number, cause: string, isDone = true): void {
    const lane = this.#lanes.find((each) => each.player === player) ?? this.#join(player);
    lane.state = state;
    const { text } = SIGNS[state];
    const quieter = isDone ? `${text}, ${level} dB` : `plays on, and could not be made quieter by ${-level} dB`;
    const how = state === "ducked" ? quieter : text;
    this.say(`${name} ${how}${cause === "" ? "" : ` (${cause})`}`);
  }

  /** A player may not play now. */
  deny(name: string, say: string): void {
    this.say(this.#paint("refused", `${name} may not play: ${say}`));
  }

  /**
   * The node refuses the requests of a player, a floor or a flag. The same sentence is said once, however many have it.
   * @param fault undefined: the node accepts its requests again, or it has gone
   */
  fault(source: object, fault: string | undefined): void {
    const isKnown = [...this.#faults.values()].some((each) => each === fault);
    this.#faults.delete(source);
    if (fault === undefined) return;
    this.#faults.set(source, fault);
    if (!isKnown) this.say(fault);
  }

  say(text: string): void {
    const signs = this.#lanes
      .slice(0, MAX_LANES)
      .map(({ state }) => this.#paint(SIGNS[state].style, SIGNS[state].sign));
    const time = this.#now().toTimeString().slice(0, 8);
    this.#write(`${this.#paint("quiet", time)}  ${signs.join(" ")}${signs.length > 0 ? "  " : ""}${text}`);
  }

  /** The player is gone: its lane is free for another. */
  leave(player: object): void {
    const lane = this.#lanes.findIndex((each) => each.player === player);
    if (lane >= 0) this.#lanes.splice(lane, 1);
    this.#faults.delete(player);
  }

  #join(player: object): { player: object; state: PlayerState } {
    const lane = { player, state: "none" as PlayerState };
    this.#lanes.push(lane);
    return lane;
  }
}
