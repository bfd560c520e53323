import type { HeardReport } from "../../src/protocol/internal/node-report.ts";

/** The nodes' reports at a moment; undefined if the caller is not an operator. */
export interface RollCalled {
  at: number;
  nodes: readonly HeardReport[] | undefined;
  absentRoles?: HeardReport["roles"];
}

/** The rate between a node's last two reports; undefined before the second one. */
export function rateOf(
  readings: readonly RollCalled[],
  node: string,
  counter: "commands" | "commits",
): number | undefined {
  const reports = readings.flatMap(({ at, nodes = [] }) => {
    const report = nodes.find((each) => each.node === node && each.silentMs === undefined);
    return report ? [{ at, count: report[counter] }] : [];
  });
  const [before, now] = reports.slice(-2);
  if (!before || !now) return undefined;
  return perSecond(before, now);
}

/** The rate of a counter between two readings; 0 if it decreased, because the node has started again. */
export const perSecond = (before: { at: number; count: number }, now: { at: number; count: number }): number =>
  Math.max(0, now.count - before.count) / Math.max(0.001, (now.at - before.at) / 1_000);
