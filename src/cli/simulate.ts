import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { SAVED_LOG } from "../client/saved-log.ts";
import { readBounded, whyUnreadable } from "../config/bounded-file.ts";
import type { Catalog } from "../config/catalog/catalog.ts";
import { describeRefusal, readCatalog } from "../config/catalog/catalog-file.ts";
import { faultLine } from "../config/fault.ts";
import { durationText } from "../policy/expectations.ts";
import type { PlayedEvent } from "../policy/played-log.ts";
import { MAX_SCRIPT_BYTES, type ReadScript, readScript, type Script } from "../policy/script.ts";
import { cataloguesIn, findScriptFaults } from "../policy/script-names.ts";
import { type Play, type PlayOptions, play, ScriptFault } from "../policy/simulation.ts";
import { textIn } from "../protocol/locale.ts";
import { visibleJson } from "../shared/text.ts";
import { WallClock } from "../shared/wall-clock.ts";
import { layOut } from "./line-layout.ts";
import { narrate } from "./narration.ts";
import { type Paint, paintFor } from "./paint.ts";
import { counted, type Output, printLines } from "./printed-lines.ts";
import { catalogOrCode } from "./read-catalog.ts";
import { wrapToWidth } from "./text-width.ts";
import { drawLegend, drawTimeline, readTimeline, type Timeline } from "./timeline.ts";
import { drawSvg } from "./timeline-svg.ts";

export type SimulationFormat = "text" | "json" | "svg";

export interface SimulateOptions {
  format: SimulationFormat;
  /** The catalogue to play with, in place of the one that the script names. */
  catalogPath?: string | undefined;
  /** The catalogue of a script that names none. */
  usualPath: string;
  env: Readonly<Record<string, string | undefined>>;
}

const WIDTH = 80;
const MAX_LINES = 4;
/** The maximum number of lines of what happened, and lanes, that text shows; a long play is only summed up. */
const MAX_EVENTS_SHOWN = 200;
const MAX_LANES = 40;

/**
 * `interlock simulate <script>`: play a script on a virtual clock, and print what happened.
 *
 * @param fail prints a line about what is wrong with the command's input
 * @returns the exit code: 0; 1 if an expectation does not hold, or the script or its catalogue has faults; 2 if a file
 *   cannot be read
 */
export async function simulate(
  path: string,
  out: Output,
  options: SimulateOptions,
  fail: (line: string) => void,
): Promise<number> {
  const read = await readScriptFile(path, fail);
  if (typeof read === "number") return read;
  const { catalogPath, usualPath, format, env } = options;
  const named = read.script.catalogue;
  const beside = named === undefined ? usualPath : resolve(dirname(path), named);
  const catalog = await catalogOrCode(catalogPath ?? beside, fail);
  if (typeof catalog === "number") return catalog;
  const load = (file: string): Catalog => loadNow(resolve(dirname(path), file));
  const played = tryToPlay(path, read, { catalog, load }, fail);
  if (!played) return 1;
  printLines(out, drawn(read.script, played, format, paintFor(out, env)));
  const broken = played.checks.filter(({ fault }) => fault !== undefined);
  // What another program reads has no place for failures.
  if (format !== "text") for (const { line, text, fault } of broken) fail(`${path}:${line} expected ${text}; ${fault}`);
  return broken.length > 0 ? 1 : 0;
}

function tryToPlay(
  path: string,
  read: ReadScript,
  options: PlayOptions & { load: (file: string) => Catalog },
  fail: (line: string) => void,
): Play | undefined {
  try {
    const others = cataloguesIn(read.script.steps).map(options.load);
    const faults = findScriptFaults(read, [options.catalog, ...others]);
    for (const fault of faults) fail(faultLine(path, fault));
    return faults.length > 0 ? undefined : play(read, options);
  } catch (error) {
    if (!(error instanceof ScriptFault)) throw error;
    fail(`${path}: ${error.message}`);
    return undefined;
  }
}

function drawn(script: Script, played: Play, format: SimulationFormat, paint: Paint): string[] {
  switch (format) {
    case "json":
      return visibleJson(jsonOf(played)).split("\n");
    case "svg":
      return svgOf(script, played).trimEnd().split("\n");
    case "text":
      return textOf(script, played, paint);
  }
}

async function readScriptFile(path: string, fail: (line: string) => void): Promise<ReadScript | number> {
  let bytes: Buffer;
  try {
    bytes = await readBounded(path, MAX_SCRIPT_BYTES);
  } catch (error) {
    fail(`${path}: ${whyUnreadable(error)}`);
    return 2;
  }
  const read = readScript(bytes.toString("utf8"));
  if (read.ok) return read;
  for (const fault of read.faults) fail(faultLine(path, fault));
  return 1;
}

/** @throws ScriptFault if it cannot be read, or has faults */
function loadNow(path: string): Catalog {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw new ScriptFault(1, `${path}: ${whyUnreadable(error)}`);
  }
  const reading = readCatalog(text);
  if (reading.ok) return reading.catalog;
  throw new ScriptFault(1, describeRefusal(path, reading).join("\n"));
}

/** A saved log, which the page opens; of several floors a line for each, as `interlock export --logs` writes them. */
function jsonOf({ floors }: Play): string {
  return floors.map(({ floorId, events }) => JSON.stringify({ ...SAVED_LOG, floorId, events })).join("\n");
}

/** The lanes, each named after its session; a refused agent without a session by its own name. */
function lanesOf({ events, endedAt }: Play): Timeline {
  const { durationMs, rows } = readTimeline(events, endedAt);
  const nameOf = namesIn(events);
  return { durationMs, rows: rows.map((row) => ({ ...row, agentId: nameOf(row.sessionId) ?? row.agentId })) };
}

/** What a session is called: one that a series has made as the series. */
function namesIn(events: readonly PlayedEvent[]): (sessionId: string | undefined) => string | undefined {
  const made = events.flatMap((event) => {
    const { sessionId } = event;
    if (event.type !== "session_created" || sessionId === undefined) return [];
    return event.data.series === undefined ? [] : [[sessionId as string, event.data.series as string] as const];
  });
  const names = new Map(made);
  return (sessionId) => (sessionId === undefined ? undefined : (names.get(sessionId) ?? sessionId));
}

function svgOf(script: Script, played: Play): string {
  const clock = new WallClock(script.timezone);
  const firstAt = played.events[0] ? Date.parse(played.events[0].timestamp) : played.startedAt;
  const labelAt = (ms: number, stepMs: number) => clockText(clock, firstAt + ms, stepMs);
  return drawSvg(lanesOf(played), { title: textIn(script.title ?? "", undefined), labelAt });
}

function textOf(script: Script, played: Play, paint: Paint): string[] {
  const { events, checks, startedAt, endedAt } = played;
  const clock = new WallClock(script.timezone);
  const lines: string[] = [];
  const print = (line = "") => lines.push(line.trimEnd());
  if (script.title !== undefined)
    for (const line of wrapToWidth(textIn(script.title, undefined), WIDTH)) print(paint("title", line));
  const day = new Date(clock.shownAt(startedAt)).toISOString().slice(0, 10);
  print(
    paint(
      "quiet",
      `${day}, ${script.timezone}, ${durationText(endedAt - startedAt)}, ${countOf(events, "arbitration")}`,
    ),
  );
  print();
  const timeOf = (at: number) => new Date(clock.shownAt(at)).toISOString().slice(11, 19);
  const narrated = narrate(named(events), [], (agentId) => agentId);
  const kept = narrated.filter(({ text }) => text !== "…");
  const head = kept.slice(0, MAX_EVENTS_SHOWN);
  const layout = { width: WIDTH, maxLines: MAX_LINES, timeOf, nameOf: (name: string) => name, paint };
  for (const line of layOut(head, layout)) print(line);
  if (kept.length > head.length) print(paint("quiet", `… and ${kept.length - head.length} more lines`));
  print();
  const lanes = lanesOf(played);
  const rows = lanes.rows.slice(0, MAX_LANES);
  const firstAt = events[0] ? Date.parse(events[0].timestamp) : startedAt;
  const labelAt = (ms: number, stepMs: number) => clockText(clock, firstAt + ms, stepMs);
  const drawn = { width: WIDTH, nameOf: (name: string) => name, paint, labelAt };
  for (const line of drawTimeline({ ...lanes, rows }, drawn)) print(line);
  if (lanes.rows.length > rows.length) print(paint("quiet", `… and ${lanes.rows.length - rows.length} more lanes`));
  print(drawLegend(paint));
  if (checks.length === 0) return lines;
  print();
  for (const line of describeChecks(played, paint)) print(line);
  return lines;
}

/** Failed expectations, each with what was there instead; or how many hold. */
function describeChecks({ checks }: Play, paint: Paint): string[] {
  const broken = checks.filter(({ fault }) => fault !== undefined);
  const lines = broken.flatMap(({ line, text, fault }) => [
    ...wrapToWidth(`✗ line ${line}: expected ${text}`, WIDTH).map((each) => paint("refused", each)),
    ...wrapToWidth(`but ${fault}`, WIDTH - 4).map((each) => `    ${each}`),
  ]);
  if (broken.length > 0) return [...lines, `${broken.length} of ${checks.length} expectations do not hold.`];
  return [paint("active", checks.length === 1 ? "The expectation holds." : `All ${checks.length} expectations hold.`)];
}

/** The events with sessions in place of agents, so that a line names the session. */
function named(events: readonly PlayedEvent[]): PlayedEvent[] {
  const nameOf = namesIn(events);
  return events.map((event) => {
    if (event.type !== "session_created" || event.sessionId === undefined) return event;
    return { ...event, data: { ...event.data, agentId: nameOf(event.sessionId) as typeof event.data.agentId } };
  });
}

function countOf(events: readonly PlayedEvent[], type: PlayedEvent["type"]): string {
  const count = events.filter((event) => event.type === type).length;
  return counted(count, "decision");
}

const DAY_MS = 86_400_000;

/** A time as short as the distance of two labels allows. */
function clockText(clock: WallClock, at: number, stepMs: number): string {
  const text = new Date(clock.shownAt(at)).toISOString();
  if (stepMs >= DAY_MS) return text.slice(5, 10);
  return stepMs < 60_000 ? text.slice(11, 19) : text.slice(11, 16);
}
