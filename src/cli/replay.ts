import type { LoggedServerEvent } from "../client/server-event.ts";
import { whyUnreadable } from "../config/bounded-file.ts";
import type { Catalog } from "../config/catalog/catalog.ts";
import { type Check, checkPlay, durationText } from "../policy/expectations.ts";
import { type ReplayOptions, replayFloor } from "../policy/replay/replay.ts";
import {
  type AgentBeforeAfter,
  type Difference,
  type ReplayReport,
  ReplaySummary,
} from "../policy/replay/replay-report.ts";
import { type PlayExpectation, readExpectation } from "../policy/script.ts";
import type { AgentTally } from "../protocol/replay.ts";
import { layOut } from "./line-layout.ts";
import { narrate } from "./narration.ts";
import { type Paint, paintFor, plain } from "./paint.ts";
import { type Output, printJson, printLines } from "./printed-lines.ts";
import { catalogOrCode } from "./read-catalog.ts";
import { LogFault, readSavedLogs } from "./saved-logs.ts";
import { cutToWidth, wrapToWidth } from "./text-width.ts";

export type ReplayFormat = "text" | "markdown" | "json";

export interface ReplayLogsOptions {
  /** The catalogue under which the logs are played. */
  cataloguePath: string;
  /** Catalogues that were in force, each used while a log names its hash. */
  formerPaths: readonly string[];
  /** Lines that say what is expected of an agent, as at the end of a script. */
  expectations: readonly string[];
  /** How long a session that was refused is heard, if it is not refused now. */
  refusedLastMs: number;
  format: ReplayFormat;
  env: Readonly<Record<string, string | undefined>>;
}

const WIDTH = 80;
/** The maximum number of kinds of differences, and of lines of the story of one. */
const MAX_KINDS = 40;
const MAX_STORY = 4;

/** What happened at the first difference of a kind, before and now. */
interface Story {
  readonly before: string[];
  readonly after: string[];
}

type Fail = (line: string) => void;

/**
 * `interlock replay LOG... --catalogue FILE`: what would have happened with another catalogue.
 * @param fail prints a line about what is wrong with the command's input
 * @returns the exit code: 0; 1 if an expectation does not hold, or a file has faults; 2 if a file cannot be read
 */
export async function replayLogs(
  logPaths: readonly string[],
  out: Output,
  options: ReplayLogsOptions,
  fail: Fail,
): Promise<number> {
  const catalogs = await readCatalogs([options.cataloguePath, ...options.formerPaths], fail);
  if (typeof catalogs === "number") return catalogs;
  const [catalog, ...others] = catalogs as [Catalog, ...Catalog[]];
  const expected = readExpectations(options.expectations, catalog, fail);
  if (!expected) return 1;
  const former = new Map(others.map((each) => [each.hash, each]));
  const summary = new ReplaySummary();
  const stories = new Map<Difference, Story>();
  for (const path of logPaths) {
    try {
      await replayFile(path, { catalog, former, refusedLastMs: options.refusedLastMs }, summary, stories);
    } catch (error) {
      const isFault = error instanceof LogFault;
      fail(`${path}: ${isFault ? error.message : whyUnreadable(error)}`);
      return isFault ? 1 : 2;
    }
  }
  const checks = expected.flatMap((each, index) => checkPlay(each, summary.after, index + 1));
  print(out, summary.report(), checks, stories, { ...options, hash: catalog.hash });
  return checks.some(({ fault }) => fault !== undefined) ? 1 : 0;
}

/** Replay the floors of a file one by one, so that one of them is in memory. */
async function replayFile(
  path: string,
  options: ReplayOptions,
  summary: ReplaySummary,
  stories: Map<Difference, Story>,
): Promise<void> {
  for await (const { floorId, events } of readSavedLogs(path)) {
    if (events.length === 0) continue;
    const replayed = replayFloor(floorId, events, options);
    for (const first of summary.add(replayed).firsts) {
      stories.set(first, { before: storyOf(events, first.at), after: storyOf(replayed.after, first.at) });
    }
  }
}

/** @returns the catalogues, or the exit code */
async function readCatalogs(paths: readonly string[], fail: Fail): Promise<Catalog[] | number> {
  const catalogs: Catalog[] = [];
  for (const path of paths) {
    const catalog = await catalogOrCode(path, fail);
    if (typeof catalog === "number") return catalog;
    catalogs.push(catalog);
  }
  return catalogs;
}

/** @returns undefined if one of them has a fault, or names an agent that the catalogue lacks */
function readExpectations(lines: readonly string[], { agents }: Catalog, fail: Fail): PlayExpectation[] | undefined {
  let isFaulty = false;
  const expected = lines.flatMap((line): PlayExpectation[] => {
    const read = readExpectation(line);
    const fault =
      "fault" in read
        ? read.fault
        : agents.has(read.expected.agent)
          ? undefined
          : `there is no agent ${read.expected.agent}`;
    if (fault !== undefined) fail(`--expect ${line}: ${fault}`);
    isFaulty ||= fault !== undefined;
    return "expected" in read ? [read.expected] : [];
  });
  return isFaulty ? undefined : expected;
}

type Printed = ReplayLogsOptions & { hash: string };

function print(
  out: Output,
  report: ReplayReport,
  checks: readonly Check[],
  stories: ReadonlyMap<Difference, Story>,
  options: Printed,
): void {
  if (options.format === "json") return printJson(out, { catalogue: options.hash, ...report, checks });
  const isMarkdown = options.format === "markdown";
  const paint = isMarkdown ? (_: unknown, text: string) => text : paintFor(out, options.env);
  const lines = [
    ...headLines(report, options),
    "",
    ...kindLines(report, stories, paint as Paint, isMarkdown),
    ...(isMarkdown ? markdownTable(report.agents) : textTable(report.agents)),
    ...(checks.length > 0 ? ["", ...checkLines(checks, paint as Paint)] : []),
  ];
  printLines(out, lines);
}

function headLines(report: ReplayReport, { cataloguePath, refusedLastMs }: Printed): string[] {
  const { floors, requests, unknown, reloads } = report;
  const day = (at: number) => new Date(at).toISOString().slice(0, 16).replace("T", " ");
  const span = floors === 0 ? "" : `, ${day(report.from)} to ${day(report.to)} UTC`;
  return [
    `${counted(floors, "floor")}${span}, ${counted(requests, "request")}, played with ${cataloguePath}`,
    ...(reloads > 0 ? [`The logs name other catalogues ${counted(reloads, "time")}.`] : []),
    ...(unknown > 0
      ? [`${counted(unknown, "session")} did not take part: the logs begin later and do not name their agents.`]
      : []),
    `A session that was refused and is not refused now is heard for ${durationText(refusedLastMs)}: --refused-last.`,
  ].flatMap((line) => wrapToWidth(line, WIDTH));
}

function kindLines(
  { kinds }: ReplayReport,
  stories: ReadonlyMap<Difference, Story>,
  paint: Paint,
  isMarkdown: boolean,
): string[] {
  if (kinds.length === 0) return [paint("active", "Nothing is otherwise."), ""];
  const lines = kinds.slice(0, MAX_KINDS).flatMap((kind) => {
    const head = `${kind.count}× ${kind.agentId}: ${kind.before} → ${kind.after}`;
    const { first } = kind;
    const at = `first at ${new Date(first.at).toISOString().slice(0, 19).replace("T", " ")} on ${first.floorId}`;
    const { before = [], after = [] } = stories.get(first) ?? {};
    const story = [at, ...labelled("before", before), ...labelled("now", after)];
    if (isMarkdown) return [`- **${head}**`, ...story.map((line) => `  ${line}  `)];
    return [...wrapToWidth(head, WIDTH).map((line) => paint("title", line)), ...story.map((line) => `    ${line}`)];
  });
  const more = kinds.length - MAX_KINDS;
  return [...lines, ...(more > 0 ? [`… and ${counted(more, "more kind")}`] : []), ""];
}

const labelled = (label: string, lines: readonly string[]): string[] =>
  lines.length === 0
    ? [`${label}: nothing`]
    : lines.map((line, index) => `${index === 0 ? `${label}: ` : " ".repeat(label.length + 2)}${line}`);

/** What happened at this moment, in lines. */
function storyOf(events: readonly LoggedServerEvent[], at: number): string[] {
  const narrated = narrate(events, [], (agentId) => agentId);
  const lines = narrated.filter((line) => line.at === at && line.text !== "…");
  const timeOf = (time: number) => new Date(time).toISOString().slice(11, 19);
  const layout = { width: WIDTH - 12, maxLines: 2, timeOf, nameOf: (name: string) => name, paint: plain };
  return layOut(lines, layout).slice(0, MAX_STORY);
}

const COLUMNS = ["asked", "granted", "refused", "waited", "in front", "beneath", "silent", "longest"] as const;

function cells({ requests, granted, rejected, ...tally }: AgentTally): string[] {
  const times = [tally.waitedMs, tally.frontMs, tally.beneathMs, tally.silentMs, tally.longestSilenceMs];
  return [String(requests), String(granted), String(rejected), ...times.map(shortTime)];
}

/** Two lines for each agent, and the reasons of refusals where they are others now. */
function textTable(agents: readonly AgentBeforeAfter[]): string[] {
  const rows = agents.flatMap(({ agentId, before, after }) => [
    [cutToWidth(agentId, 18), "before", ...cells(before)],
    ["", "now", ...cells(after)],
  ]);
  const all = [["", "", ...COLUMNS], ...rows];
  const widths = all[0]!.map((_, column) => Math.max(...all.map((row) => row[column]!.length)));
  const table = all.map((row) =>
    row
      .map((cell, column) => (column < 2 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!)))
      .join(" ")
      .trimEnd(),
  );
  return [...table, ...refusalLines(agents)];
}

function markdownTable(agents: readonly AgentBeforeAfter[]): string[] {
  const row = (cellsOf: readonly string[]) => `| ${cellsOf.join(" | ")} |`;
  const head = ["agent", "", ...COLUMNS];
  const rows = agents.flatMap(({ agentId, before, after }) => [
    row([`\`${agentId}\``, "before", ...cells(before)]),
    row(["", "now", ...cells(after)]),
  ]);
  return [row(head), row(head.map(() => "---")), ...rows, ...refusalLines(agents)];
}

function refusalLines(agents: readonly AgentBeforeAfter[]): string[] {
  const lines = agents.flatMap(({ agentId, before, after }) => {
    const [was, is] = [before, after].map(({ refusedBy }) => reasonsOf(refusedBy));
    return was === is ? [] : [`${agentId} was refused: ${was}; now: ${is}`];
  });
  return lines.length === 0 ? [] : ["", ...lines.flatMap((line) => wrapToWidth(line, WIDTH))];
}

const reasonsOf = (refusedBy: AgentTally["refusedBy"]): string =>
  Object.entries(refusedBy)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([reason, count]) => `${reason} ${count}×`)
    .join(", ") || "never";

function checkLines(checks: readonly Check[], paint: Paint): string[] {
  const broken = checks.filter(({ fault }) => fault !== undefined);
  const lines = broken.map(({ text, fault }) => paint("refused", `✗ expected ${text}; ${fault}`));
  if (broken.length > 0) return [...lines, `${broken.length} of ${checks.length} expectations do not hold.`];
  return [paint("active", checks.length === 1 ? "The expectation holds." : `All ${checks.length} expectations hold.`)];
}

const counted = (count: number, what: string): string =>
  `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;

/** A duration in few columns: `45s`, `12m`, `3.5h`, `2.1d`. */
function shortTime(ms: number): string {
  if (ms === 0) return "-";
  if (ms < 60_000) return `${Number((ms / 1_000).toFixed(1))}s`;
  if (ms < 3_600_000) return `${Number((ms / 60_000).toFixed(1))}m`;
  if (ms < 86_400_000) return `${Number((ms / 3_600_000).toFixed(1))}h`;
  return `${Number((ms / 86_400_000).toFixed(1))}d`;
}
