import type { HeardReport } from "../../src/protocol/internal/node-report.ts";

/** What the nodes said at a moment; undefined where the caller is no operator. */
export interface RollCalled {
  at: number;
  nodes: readonly HeardReport[] | undefined;
}

/** So many a second, between the last two times that a node answered; undefined before it answered twice. */
export function rateOf(
  readings: readonly RollCalled[],
  node: string,
  counter: "commands" | "commits",
): number | undefined {
  const heard = readings.flatMap(({ at, nodes = [] }) => {
    const report = nodes.find((each) => each.node === node && each.silentMs === undefined);
    return report ? [{ at, count: report[counter] }] : [];
  });
  const [before, now] = heard.slice(-2);
  if (!before || !now) return undefined;
  return Math.max(0, now.count - before.count) / Math.max(0.001, (now.at - before.at) / 1_000);
}
