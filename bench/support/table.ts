/** One line of the report: a figure of ours beside its limit, measured in the same run. */
export interface Row {
  what: string;
  ours: number;
  beside: number;
  unit: string;
  /** The ratio ours / beside is to be at least … or at most this. */
  atLeast?: number;
  atMost?: number;
}

export function printTable(rows: readonly Row[]): void {
  const lines = rows.map(({ what, ours, beside, unit, atLeast, atMost }) => {
    const ratio = ours / beside;
    const isReached = ratio >= (atLeast ?? 0) && ratio <= (atMost ?? Number.POSITIVE_INFINITY);
    const wanted = atLeast !== undefined ? `≥ ${atLeast}` : atMost !== undefined ? `≤ ${atMost}` : "";
    return [
      what,
      figure(ours, unit),
      figure(beside, unit),
      ratio.toFixed(2),
      wanted,
      wanted === "" ? "" : isReached ? "yes" : "NO",
    ];
  });
  const all = [["", "ours", "beside", "ratio", "wanted", "reached"], ...lines];
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
