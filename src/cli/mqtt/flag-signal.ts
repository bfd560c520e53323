/**
 * One flag of a floor and the signals that set it: a pure machine, which has no clock and sends nothing. The flag is on
 * while any of its signals has its value.
 */

/** Signals of one flag that are remembered: with a wildcard each topic is one. */
const MAX_SIGNALS = 1_024;

export interface FlagSignal {
  /** The newest value of each topic. */
  readonly signals: ReadonlyMap<string, boolean>;
  /** What the floor should have; undefined: no signal has been received, and the floor's own value stays. */
  readonly wanted: boolean | undefined;
  /** What the node has answered last; undefined: nothing, or it may have changed since. */
  readonly known: boolean | undefined;
  /** What is under way to the node. */
  readonly underWay: boolean | undefined;
}

export type FlagEvent =
  | { type: "signal"; topic: string; isOn: boolean }
  /** The signals have been lost for the time of `when_lost`. */
  | { type: "lost"; to: boolean }
  /** The node has done what was under way. */
  | { type: "done" }
  /** The node did not. */
  | { type: "failed" }
  /** A while has passed since. */
  | { type: "try again" }
  /** The floor was read: it has the flag so. */
  | { type: "read"; isOn: boolean };

export const newFlagSignal = (): FlagSignal => ({
  signals: new Map(),
  wanted: undefined,
  known: undefined,
  underWay: undefined,
});

/** Take an event. Returns the next machine, and what is sent to the node now. */
export function stepFlag(flag: FlagSignal, event: FlagEvent): [FlagSignal, boolean | undefined] {
  const next = afterEvent(flag, event);
  const { wanted, known, underWay } = next;
  if (wanted === undefined || underWay !== undefined || event.type === "failed" || wanted === known) {
    return [next, undefined];
  }
  return [{ ...next, underWay: wanted }, wanted];
}

function afterEvent(flag: FlagSignal, event: FlagEvent): FlagSignal {
  switch (event.type) {
    case "signal": {
      const { signals } = flag;
      if (signals.get(event.topic) === event.isOn) return flag;
      if (!signals.has(event.topic) && signals.size >= MAX_SIGNALS) return flag;
      const next = new Map(signals).set(event.topic, event.isOn);
      return { ...flag, signals: next, wanted: isAnyOn(next) };
    }
    case "lost":
      return { ...flag, signals: new Map(), wanted: event.to };
    case "done":
      return { ...flag, known: flag.underWay, underWay: undefined };
    case "failed":
      return { ...flag, known: undefined, underWay: undefined };
    case "try again":
      return flag;
    case "read":
      return flag.underWay === undefined ? { ...flag, known: event.isOn } : flag;
  }
}

const isAnyOn = (signals: ReadonlyMap<string, boolean>): boolean => [...signals.values()].some(Boolean);
