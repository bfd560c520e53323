import { type LogEvent, timeOf } from "./log-event.ts";
import { LogIndex } from "./log-index.ts";

/** The number of stretches that is kept, however long the log is; even. More than a screen has pixels is of no use. */
const MAX_STRETCHES = 4_096;
/** A rate of this many powers of ten below the highest has the lowest bar. */
const DECADES = 5;
const LOWEST = 0.1;

/** Consecutive events of a log. */
interface Stretch {
  count: number;
  /** The time of its last event, in ms since 1970. */
  endAt: number;
  /** Whether it has a refusal or a failure. */
  isBad: boolean;
}

/** How dense the events of a log are in time. */
export interface Density {
  firstAt: number;
  /** The events of each stretch; the last one may have fewer. */
  size: number;
  stretches: Stretch[];
}

export const densityIndex = () =>
  new LogIndex<Density>(
    () => ({ firstAt: 0, size: 1, stretches: [] }),
    (density, event) => {
      const { stretches } = density;
      const [at, isBad] = [timeOf(event), isBadEvent(event)];
      if (stretches.length === 0) density.firstAt = at;
      const last = stretches.at(-1);
      if (last && last.count < density.size) {
        joinTo(last, { count: 1, endAt: at, isBad });
        return;
      }
      if (stretches.length === MAX_STRETCHES) halve(density);
      stretches.push({ count: 1, endAt: at, isBad });
    },
  );

/** Whether an event is a refusal or a failure. */
export const isBadEvent = (event: LogEvent): boolean =>
  event.type === "error" || (event.type === "arbitration" && event.data.outcome === "rejected");

function joinTo(stretch: Stretch, { count, endAt, isBad }: Stretch): void {
  stretch.count += count;
  stretch.endAt = Math.max(stretch.endAt, endAt);
  stretch.isBad ||= isBad;
}

/** Join each stretch with the next: all of them are full. */
function halve(density: Density): void {
  const { stretches } = density;
  for (let index = 0; index < stretches.length / 2; index += 1) {
    const first = stretches[2 * index]!;
    joinTo(first, stretches[2 * index + 1]!);
    stretches[index] = first;
  }
  stretches.length /= 2;
  density.size *= 2;
}

/** Events per unit of time in each stretch, on a logarithmic scale: the densest is 1, and none is below `LOWEST`. */
export function heightsOf({ firstAt, stretches }: Density): number[] {
  const rates = stretches.map(({ count, endAt }, index) => {
    const beganAt = stretches[index - 1]?.endAt ?? firstAt;
    // The first event of the log follows no other.
    return (index === 0 ? count - 1 : count) / Math.max(1, endAt - beganAt);
  });
  const most = rates.reduce((one, other) => Math.max(one, other), 0);
  return rates.map((rate) => (rate > 0 ? Math.max(LOWEST, 1 - Math.log10(most / rate) / DECADES) : LOWEST));
}
