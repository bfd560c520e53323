import type { Lane, Mark } from "../../../src/client/lanes.ts";
import { countLeading } from "../../log/count-leading.ts";
import { colourReader } from "../../parts/colours.ts";
import type { Look } from "../../parts/look.ts";
import type { Axis } from "../folding.ts";
import { firstAbove, type LaneSpan } from "./lanes.ts";

export const LANE_PX = 22;

/** Not only by colour: the holder's bar is the tallest, a created session's the thinnest. */
export const HEIGHTS: Readonly<Record<Look, number>> = {
  created: 2,
  queued: 2,
  idle: 13,
  running: 13,
  waiting: 13,
  failed: 13,
  ducked: 8,
  paused: 5,
  archived: 0,
};

/** The name of the colour of a bar; that of a ducked session, which is heard, is lower only. */
export const barColour = (look: Look): string => `s-${look === "ducked" ? "idle" : look}`;

interface Picture {
  canvas: HTMLCanvasElement;
  lanes: readonly Lane[];
  /** By lane, and those without a lane under "". */
  marks: ReadonlyMap<string, readonly Mark[]>;
  axis: Axis;
  /** On the axis. */
  span: LaneSpan;
  /** The visible lanes. */
  first: number;
  count: number;
  /** The end of the log. */
  end: number;
}

/** Paint the visible lanes. Changes narrower than a pixel are painted once per pixel. */
export function paintLanes({ canvas, lanes, marks, axis, span: shown, first, count, end }: Picture): void {
  const ratio = devicePixelRatio;
  const width = canvas.clientWidth;
  const height = count * LANE_PX;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.scale(ratio, ratio);
  const colour = colourReader(canvas);
  const span = { from: axis.timeAt(shown.from), to: axis.timeAt(shown.to) };
  const xOf = (at: number) => ((axis.pointOf(at) - shown.from) / (shown.to - shown.from)) * width;
  for (let row = 0; row < count; row += 1) {
    const lane = lanes[first + row];
    if (!lane) break;
    const top = row * LANE_PX;
    pen.fillStyle = colour("line");
    pen.fillRect(0, top + LANE_PX - 1, width, 1);
    paintLane(pen, lane, { top, span, xOf, end, width, colour });
    paintMarks(pen, marks.get(lane.sessionId) ?? [], { top, span, xOf, colour });
    // A refusal that created no session has no lane: it crosses all of them.
    paintMarks(pen, marks.get("") ?? [], { top, span, xOf, colour });
  }
}

interface LaneGeometry {
  top: number;
  span: LaneSpan;
  xOf: (at: number) => number;
  colour: (name: string) => string;
}

function paintLane(
  pen: CanvasRenderingContext2D,
  { starts, looks, endsAt }: Lane,
  { top, span, xOf, end, width, colour }: LaneGeometry & { end: number; width: number },
): void {
  let painted = Number.NEGATIVE_INFINITY;
  for (let index = Math.max(0, firstAbove(starts, span.from) - 1); index < starts.length; index += 1) {
    const start = starts[index]!;
    if (start > span.to) break;
    const stop = starts[index + 1] ?? endsAt ?? end;
    const left = Math.max(0, xOf(start));
    const right = Math.min(width, Math.max(xOf(stop), left + 1));
    const look = looks[index]!;
    if (right <= painted || HEIGHTS[look] === 0) continue;
    painted = Math.floor(right);
    const tall = HEIGHTS[look];
    // On whole pixels, because a bar between two pixels is blurred.
    const upper = top + Math.floor((LANE_PX - tall) / 2);
    pen.fillStyle = colour(barColour(look));
    pen.fillRect(left, upper, right - left, tall);
    if (look !== "failed" || right - left < 6) continue;
    pen.fillStyle = colour("ground");
    pen.fillRect((left + right) / 2 - 2, upper, 4, 4);
  }
}

function paintMarks(
  pen: CanvasRenderingContext2D,
  marks: readonly Mark[],
  { top, span, xOf, colour }: LaneGeometry,
): void {
  let painted = -1;
  for (let index = firstMark(marks, span.from); index < marks.length; index += 1) {
    const { at, outcome } = marks[index]!;
    if (at > span.to) break;
    const x = Math.round(xOf(at));
    if (x === painted) continue;
    painted = x;
    const isBad = outcome === "rejected" || outcome === "failed";
    pen.fillStyle = colour(isBad ? "s-failed" : "ink");
    pen.beginPath();
    if (isBad) {
      pen.rect(x - 1, top + 1, 2, LANE_PX - 3);
    } else {
      pen.moveTo(x - 4, top + 1);
      pen.lineTo(x + 4, top + 1);
      pen.lineTo(x, top + 6);
    }
    pen.fill();
  }
}

/** The first mark that is not before the moment. */
function firstMark(marks: readonly Mark[], moment: number): number {
  return countLeading(marks.length, (index) => marks[index]!.at < moment);
}
