import type { SpanState, Timeline } from "./timeline.ts";

export interface SvgOptions {
  title: string;
  /** The label of a time, in ms after the first event; `stepMs`: the distance of two labels. */
  labelAt: (ms: number, stepMs: number) => string;
}

const WIDTH = 960;
const LABELS = 200;
const LANE = 28;
const TOP = 40;
const TICKS = 8;
/** Colours that remain distinct without red and green. */
const FILLS: Readonly<Record<SpanState, string>> = {
  active: "#0a7d4f",
  ducked: "#7db8e8",
  paused: "#e3b341",
  waiting: "#d0d7de",
};

/** Draw a timeline as an SVG picture: a lane for each session, and an axis. */
export function drawSvg({ durationMs, rows }: Timeline, { title, labelAt }: SvgOptions): string {
  const room = WIDTH - LABELS - 16;
  const xAt = (ms: number) => round(LABELS + (durationMs === 0 ? 0 : (ms / durationMs) * room));
  const bottom = TOP + rows.length * LANE;
  const parts: string[] = [];
  for (let tick = 0; tick <= TICKS; tick++) {
    const ms = (durationMs * tick) / TICKS;
    const x = xAt(ms);
    parts.push(`<line x1="${x}" y1="${TOP}" x2="${x}" y2="${bottom}" stroke="#d0d7de"/>`);
    const label = escaped(labelAt(ms, durationMs / TICKS));
    parts.push(`<text x="${x}" y="${bottom + 16}" text-anchor="middle" fill="#57606a">${label}</text>`);
  }
  for (const [index, { agentId, priority, spans, refusedAtMs }] of rows.entries()) {
    const y = TOP + index * LANE;
    parts.push(`<text x="8" y="${y + 18}">${escaped(agentId)} <tspan fill="#57606a">${priority}</tspan></text>`);
    for (const { state, fromMs, toMs } of spans) {
      const x = xAt(fromMs);
      // A ducked session is drawn lower, a silent one as a line.
      const height = state === "active" ? 18 : state === "ducked" ? 10 : 4;
      const at = y + 5 + (18 - height);
      const width = Math.max(1, round(xAt(toMs) - x));
      parts.push(
        `<rect x="${x}" y="${at}" width="${width}" height="${height}" fill="${FILLS[state]}"><title>${state}</title></rect>`,
      );
    }
    for (const ms of refusedAtMs) {
      parts.push(
        `<text x="${xAt(ms)}" y="${y + 20}" text-anchor="middle" fill="#cf222e">✗<title>refused</title></text>`,
      );
    }
  }
  const height = bottom + 28;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="12">`,
    `<rect width="${WIDTH}" height="${height}" fill="#fff"/>`,
    `<text x="8" y="22" font-size="15" font-weight="bold">${escaped(title)}</text>`,
    ...parts,
    "</svg>\n",
  ].join("\n");
}

const round = (value: number): number => Math.round(value * 10) / 10;

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
