import { EXPLORED_FROM } from "../../../src/policy/exploration.ts";
import { HourCombinations } from "../../../src/policy/hour-combinations.ts";
import { Chance } from "../runner/chance.ts";
import { clockIn, DAYS, isTimeOf, type JudgedCatalog, type JudgedRestriction } from "./judged-catalog.ts";
import { toCatalog } from "./random-catalog.ts";

const MINUTE_MS = 60_000;
/** All hours of these catalogues, offsets of zones and changes of clocks are whole numbers of this. */
const GRID_MINUTES = 15;
const DAY_MINUTES = 1_440;
const YEAR_MINUTES = 366 * DAY_MINUTES;

/** Without summer, with summer in the north and in the south, with half an hour of it, and across the date line. */
const ZONES = ["UTC", "Asia/Kathmandu", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Chatham"];
const SEASONS = [Date.UTC(2026, 0, 14), Date.UTC(2026, 6, 15)];

/**
 * Rules by hours that meet in one season only, that reach over midnight, and that have days: each of them is rare in a
 * catalogue that is random in everything.
 */
function hoursCatalog(chance: Chance): JudgedCatalog {
  const [season, minute] = [chance.pick(SEASONS), GRID_MINUTES * chance.below(DAY_MINUTES / GRID_MINUTES)];
  const restrictions = ["one", "two", "three"].slice(0, chance.pick([2, 2, 3])).map((name): JudgedRestriction => {
    const timezone = chance.pick(ZONES);
    const days = [chance.pick(DAYS), chance.pick(DAYS)].slice(0, chance.pick([1, 2]));
    const isOvernight = chance.percent(30);
    const hours = isOvernight ? OVERNIGHT : between(season, minute, timezone, chance);
    const onDays = isOvernight || chance.percent(30) ? { days: [...new Set(days)] } : {};
    return { name, timezone, allow: [], between: hours, ...onDays };
  });
  return { agents: [{ name: "a" }], restrictions };
}

const OVERNIGHT = "22:00-06:00";

/** Hours that begin, on the clocks of this zone, at the same instant of the season. */
function between(season: number, minute: number, timezone: string, chance: Chance): string {
  const { time } = clockIn(timezone, season + minute * MINUTE_MS);
  const from = Number(time.slice(0, 2)) * 60 + Number(time.slice(3));
  const length = chance.pick([GRID_MINUTES, 60]);
  const two = (value: number) => String(value).padStart(2, "0");
  return [from, from + length].map((each) => `${two(Math.floor(each / 60) % 24)}:${two(each % 60)}`).join("-");
}

/**
 * Compare the rules in force that `interlock prove` explores with those of every quarter of an hour of a year, which
 * the words of `Intl` tell alone. Returns how they differ.
 */
export function tryHours(seed: number): string[] {
  const catalog = hoursCatalog(new Chance(seed));
  const rules = catalog.restrictions!;
  const hours = new HourCombinations(toCatalog(catalog), EXPLORED_FROM);
  const judgedAt = (now: number) => rules.map((rule) => (isTimeOf(rule, now) ? "1" : "0")).join("");
  const different = new Map<string, string>();
  const differ = (kind: string, what: string) => {
    if (!different.has(kind)) different.set(kind, `${what} (${JSON.stringify(rules)})`);
  };
  const all = new Set<string>();
  for (let minute = 0; minute < YEAR_MINUTES; minute += GRID_MINUTES) {
    const now = EXPLORED_FROM + minute * MINUTE_MS;
    const inForce = judgedAt(now);
    all.add(inForce);
    if (hours.at(now) !== inForce)
      differ("at", `at ${new Date(now).toISOString()} ${inForce} is in force, not ${hours.at(now)}`);
  }
  const explored = hours.all;
  for (const each of all) if (!explored.includes(each)) differ("missed", `${each} is never explored`);
  for (const each of explored) {
    if (!all.has(each)) differ("more", `${each} is explored, and never in force`);
    else if (judgedAt(hours.next(each, 0)) !== each) differ("example", `the example of ${each} is another time`);
  }
  return [...different.values()];
}
