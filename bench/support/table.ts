import { median, quantile } from "./statistics.ts";

/** One line of the report: a figure of ours and the figure it is compared with, measured in the same run. */
export interface Row {
  what: string;
  ours: number;
  reference: number;
  unit: string;
  /**
   * The ratios ours / reference of rounds that alternate. The printed ratio is their median, and the spread the middle
   * half of them. Absent: one ratio.
   */
  ratios?: readonly number[];
  /** The smallest ratio ours / reference that meets the target. */
  atLeast?: number;
  /** The largest ratio ours / reference that meets the target. */
  atMost?: number;
}

export function printTable(rows: readonly Row[]): void {
  const lines = rows.map(({ what, ours, reference, unit, ratios = [ours / reference], atLeast, atMost }) => {
    const ratio = median(ratios);
    const isMet = ratio >= (atLeast ?? 0) && ratio <= (atMost ?? Number.POSITIVE_INFINITY);
    const target = atLeast !== undefined ? `≥ ${atLeast}` : atMost !== undefined ? `≤ ${atMost}` : "";
    return [
      what,
      figure(ours, unit),
      figure(reference, unit),
      ratio.toFixed(2),
      ratios.length > 1 ? [0.25, 0.75].map((share) => quantile(ratios, share).toFixed(2)).join("–") : "",
      target,
      target === "" ? "" : isMet ? "yes" : "NO",
    ];
  });
  const all = [["", "ours", "reference", "ratio", "spread", "target", "met"], ...lines];
  const widths = all[0]!.map((_, column) => Math.max(...all.map((line) => line[column]!.length)));
  for (const line of all) {
    console.log(
      line
        .map((cell, column) => (column === 0 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!)))
        .join("  "),
    );
  }
}

function figure(value: number, unit: string): string {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toLocaleString("en", { maximumFractionDigits: digits })} ${unit}`;
}
