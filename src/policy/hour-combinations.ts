import type { Catalog } from "../config/catalog/catalog.ts";
import { hasHours, isDuring, nextChange } from "../config/catalog/hours.ts";
import { WallClock } from "../shared/wall-clock.ts";

const DAY_MS = 86_400_000;
/** From one instant of a year to the same of the next, leap days included. */
const YEAR_DAYS = 366;
/** Between two changes of the clocks, days repeat after a week. */
const WEEK_DAYS = 8;

/** A time during which the same rules apply. */
interface Stretch {
  readonly inForce: string;
  readonly from: number;
  readonly until: number;
}

/**
 * The rules and restrictions of a catalogue that apply at some times only, and which of them apply together at any
 * instant of a year. The offset of a time zone changes with the season, and not at the same time everywhere: so two
 * rules in two time zones may meet in summer only, or for two weeks in March.
 */
export class HourCombinations {
  readonly #timed: readonly Parameters<typeof isDuring>[0][];
  readonly #from: number;
  readonly #years: (readonly Stretch[])[] = [];

  /** @param from when the first year begins */
  constructor({ priorityRules, restrictions }: Catalog, from: number) {
    this.#timed = [...priorityRules, ...restrictions].filter(hasHours);
    this.#from = from;
  }

  /** Which rules apply at this instant: equal for instants at which the same do. */
  at(now: number): string {
    return this.#timed.map((rule) => (isDuring(rule, now) ? "1" : "0")).join("");
  }

  /** Every combination that an instant of the year has; one if nothing has hours. */
  get all(): string[] {
    return [...new Set(this.#year(0).map(({ inForce }) => inForce))];
  }

  /** An instant after this one at which exactly these rules apply, and go on to apply for as long as they ever do. */
  next(inForce: string, now: number): number {
    for (let year = Math.max(0, Math.floor((now - this.#from) / (YEAR_DAYS * DAY_MS))); ; year++) {
      const coming = this.#year(year).filter((each) => each.inForce === inForce && each.from > now);
      const longest = Math.max(...coming.map(({ from, until }) => until - from));
      const found = coming.find(({ from, until }) => until - from === longest);
      if (found) return found.from;
    }
  }

  /** How long the same rules go on to apply, at most this long. */
  lasts(now: number, most: number): number {
    const inForce = this.at(now);
    let until = now;
    while (until - now < most && this.at(until) === inForce) until = nextChange(this.#timed, until) ?? Infinity;
    return Math.min(until - now, most);
  }

  #year(index: number): readonly Stretch[] {
    this.#years[index] ??= this.#stretches(this.#from + index * YEAR_DAYS * DAY_MS);
    return this.#years[index];
  }

  #stretches(begin: number): Stretch[] {
    if (this.#timed.length === 0) return [{ inForce: "", from: begin, until: Infinity }];
    const stretches: Stretch[] = [];
    for (const { from, until } of this.#weeksWithAll(begin)) {
      for (let now = from; now < until; ) {
        const next = nextChange(this.#timed, now)!;
        const inForce = this.at(now);
        const last = stretches.at(-1);
        if (last?.inForce === inForce && last.until === now) stretches[stretches.length - 1] = { ...last, until: next };
        else stretches.push({ inForce, from: now, until: next });
        now = next;
      }
    }
    return stretches;
  }

  /** The first week, and one after each change of a clock: the other weeks of the year are like them. */
  #weeksWithAll(begin: number): { from: number; until: number }[] {
    const clocks = [...new Set(this.#timed.map(({ timezone }) => timezone))].map((zone) => new WallClock(zone));
    const offsetsAt = (now: number) => clocks.map((clock) => clock.shownAt(now) - now).join();
    const weeks = [{ from: begin, until: begin + WEEK_DAYS * DAY_MS }];
    for (let day = 1; day < YEAR_DAYS; day++) {
      const from = begin + (day - 1) * DAY_MS;
      if (offsetsAt(from) === offsetsAt(from + DAY_MS)) continue;
      const last = weeks.at(-1)!;
      const until = from + (WEEK_DAYS + 1) * DAY_MS;
      if (from <= last.until) weeks[weeks.length - 1] = { ...last, until };
      else weeks.push({ from, until });
    }
    return weeks;
  }
}
