import { addToLanes, type Lane, type LaneLook, unusedLanes } from "../client/lanes.ts";
import type { ServerEvent } from "../client/server-event.ts";
import type { Decision } from "../protocol/decision.ts";
import type { Language } from "./language.ts";
import { type Paint, plain } from "./paint.ts";
import { fitToWidth, widthOf } from "./text-width.ts";

export type SpanState = "active" | "ducked" | "paused" | "waiting";

/** Times in ms after the first event. */
export interface TimelineSpan {
  state: SpanState;
  fromMs: number;
  toMs: number;
}

export interface TimelineRow {
  agentId: string;
  /** Undefined for an agent that was refused and so has no session. */
  sessionId: string | undefined;
  priority: number;
  spans: TimelineSpan[];
  refusedAtMs: number[];
}

/** The states of a floor's sessions, from the first event to the last. */
export interface Timeline {
  durationMs: number;
  /** In the order in which the sessions appeared. */
  rows: TimelineRow[];
}

/**
 * Build a timeline from a floor's events, given in order. Times come from the events' timestamps.
 * @param endedAt how long the last states go on, in ms since 1970; at least until the last event
 */
export function readTimeline(events: readonly ServerEvent[], endedAt = 0): Timeline {
  const startedAt = timeOf(events[0]);
  const durationMs = events.length === 0 ? 0 : Math.max(endedAt, timeOf(events.at(-1))) - startedAt;
  const lanes = unusedLanes();
  const rows = new Rows();
  for (const [index, event] of events.entries()) {
    const lane = addToLanes(lanes, event, index);
    if (lane) rows.addOf(lane, event);
    if (event.type === "arbitration") rows.decide(lane, event.data, timeOf(event) - startedAt);
  }
  for (const [lane, row] of rows.byLane) {
    const { sessionId, agentId } = lane;
    Object.assign(row, { sessionId, agentId: agentId || sessionId, spans: spansOf(lane, startedAt, durationMs) });
  }
  return { durationMs, rows: rows.all };
}

/** A row for each lane, and for each agent that was refused and so has no session. */
class Rows {
  readonly all: TimelineRow[] = [];
  readonly byLane = new Map<Lane, TimelineRow>();
  readonly #refused = new Map<string, TimelineRow>();

  addOf(lane: Lane, event: ServerEvent): void {
    if (this.byLane.has(lane)) return;
    const [agentId, priority] = event.type === "session_created" ? [lane.agentId, event.data.priority] : ["", 0];
    // An agent that was refused before and now gets a session continues in its row.
    this.byLane.set(lane, this.#refused.get(agentId) ?? this.#add(agentId, priority));
    this.#refused.delete(agentId);
  }

  decide(lane: Lane | undefined, { outcome, challenger }: Decision, atMs: number): void {
    const { agentId, priority } = challenger;
    const row = (lane ? this.byLane.get(lane) : this.#refused.get(agentId)) ?? this.#add(agentId, priority);
    if (!lane) this.#refused.set(agentId, row);
    row.priority = priority;
    if (outcome === "rejected") row.refusedAtMs.push(atMs);
  }

  #add(agentId: string, priority: number): TimelineRow {
    const row: TimelineRow = { agentId, sessionId: undefined, priority, spans: [], refusedAtMs: [] };
    this.all.push(row);
    return row;
  }
}

const SPANS: Readonly<Record<LaneLook, SpanState | undefined>> = {
  created: undefined,
  queued: "waiting",
  idle: "active",
  running: "active",
  waiting: "active",
  failed: "active",
  ducked: "ducked",
  paused: "paused",
  archived: undefined,
};

function spansOf({ starts, looks }: Lane, startedAt: number, durationMs: number): TimelineSpan[] {
  const spans: TimelineSpan[] = [];
  for (const [index, look] of looks.entries()) {
    const state = SPANS[look];
    const fromMs = starts[index]! - startedAt;
    const toMs = index + 1 < starts.length ? starts[index + 1]! - startedAt : durationMs;
    const last = spans.at(-1);
    if (state === undefined) continue;
    if (last?.state === state && SPANS[looks[index - 1]!] === state) last.toMs = toMs;
    else spans.push({ state, fromMs, toMs });
  }
  return spans;
}

const timeOf = (event: ServerEvent | undefined): number => (event ? Date.parse(event.timestamp) : 0);

export interface DrawOptions {
  /** The width of the whole chart, in columns. */
  width: number;
  nameOf: (agentId: string) => string;
  paint?: Paint;
  /** The label of a time, in ms after the first event; `stepMs`: of ten columns. Default: in seconds. */
  labelAt?: (ms: number, stepMs: number) => string;
}

const MARKS: Readonly<Record<SpanState | "refused", string>> = {
  active: "█",
  ducked: "▒",
  paused: "░",
  waiting: "·",
  refused: "✗",
};
const ZH_KINDS: typeof MARKS = { active: "激活", ducked: "压低", paused: "暂停", waiting: "排队", refused: "拒绝" };
const LABEL_COLUMNS = 24;
const TICK_COLUMNS = 10;
/** The possible durations of one column, in ms: every tenth column then falls on a round time. */
const STEPS_MS = [
  50, 100, 200, 500, 1_000, 2_000, 3_000, 6_000, 12_000, 30_000, 60_000, 90_000, 180_000, 360_000, 720_000, 1_440_000,
  2_880_000, 8_640_000,
];

/**
 * Draw the timeline as lines: one row per session, and below them an axis in seconds. A column shows the session's
 * state at the column's middle. A span that is too short to cover a middle still gets one column: where
 * several would share it, the loudest.
 */
export function drawTimeline({ durationMs, rows }: Timeline, options: DrawOptions): string[] {
  const { width, nameOf, paint = plain, labelAt } = options;
  const labels = rows.map((row) => `${nameOf(row.agentId)} ${row.priority}`);
  const labelColumns = Math.min(LABEL_COLUMNS, Math.max(0, ...labels.map(widthOf)));
  const room = Math.max(TICK_COLUMNS, width - labelColumns - 2);
  const stepMs = STEPS_MS.find((step) => durationMs / step <= room - 1) ?? Math.ceil(durationMs / (room - 1));
  const columns = Math.floor(durationMs / stepMs) + 1;

  const lines = rows.map((row, index) => {
    const cells = drawRow(row, columns, stepMs);
    return `${fitToWidth(labels[index]!, labelColumns)}  ${paintRow(cells, paint)}`.trimEnd();
  });
  const indent = " ".repeat(labelColumns + 2);
  return [...lines, ...drawAxis(columns, stepMs, room, labelAt).map((line) => indent + paint("quiet", line))];
}

const LOUDNESS: Readonly<Record<SpanState, number>> = { waiting: 0, paused: 1, ducked: 2, active: 3 };

type Cell = SpanState | "refused" | undefined;

function drawRow({ spans, refusedAtMs }: TimelineRow, columns: number, stepMs: number): Cell[] {
  const columnAt = (ms: number) => Math.min(columns - 1, Math.floor(ms / stepMs));
  const cells = Array.from({ length: columns }, (_, column): Cell => {
    const middleMs = (column + 0.5) * stepMs;
    return spans.find(({ fromMs, toMs }) => fromMs <= middleMs && middleMs < toMs)?.state;
  });
  // The loudest last: what was heard shows where several short spans share a column.
  for (const { state, fromMs, toMs } of spans.toSorted((one, other) => LOUDNESS[one.state] - LOUDNESS[other.state])) {
    if (fromMs === toMs) continue;
    const hasColumn = cells.some((_, column) => {
      const middleMs = (column + 0.5) * stepMs;
      return fromMs <= middleMs && middleMs < toMs;
    });
    if (!hasColumn) cells[columnAt((fromMs + toMs) / 2)] = state;
  }
  for (const atMs of refusedAtMs) cells[columnAt(atMs)] = "refused";
  return cells;
}

/** Paint runs of equal cells together, which keeps the output short. */
function paintRow(cells: readonly Cell[], paint: Paint): string {
  let line = "";
  for (let start = 0; start < cells.length; ) {
    const kind = cells[start];
    let end = start + 1;
    while (end < cells.length && cells[end] === kind) end += 1;
    line += kind === undefined ? " ".repeat(end - start) : paint(kind, MARKS[kind].repeat(end - start));
    start = end;
  }
  return line;
}

/** The ticks and their labels; in seconds, the last label has the unit. */
function drawAxis(columns: number, stepMs: number, room: number, labelAt: DrawOptions["labelAt"]): [string, string] {
  let ticks = "";
  let seconds = "";
  for (let column = 0; column < columns; column += TICK_COLUMNS) {
    const isLast = column + TICK_COLUMNS >= columns;
    const label = labelAt
      ? labelAt(column * stepMs, TICK_COLUMNS * stepMs)
      : `${(column * stepMs) / 1_000}${isLast ? " s" : ""}`;
    if (column + label.length > room) break;
    ticks += "|".padEnd(TICK_COLUMNS);
    seconds += label.padEnd(TICK_COLUMNS);
  }
  return [ticks.trimEnd(), seconds.trimEnd()];
}

/** The legend of the marks, in one line. */
export function drawLegend(paint: Paint = plain, language: Language = "en"): string {
  const kinds = ["active", "ducked", "paused", "waiting", "refused"] as const;
  return kinds.map((kind) => `${paint(kind, MARKS[kind])} ${language === "zh" ? ZH_KINDS[kind] : kind}`).join("   ");
}
