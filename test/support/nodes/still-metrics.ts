import { Metrics } from "../../../src/node/metrics.ts";

const none = () => 0;

/** The metrics of an idle node, which a test can change. */
export function stillMetrics(): Metrics {
  const metrics = new Metrics({
    node: "still",
    name: "still:1",
    roles: ["gateway", "orchestrator", "worker"],
    version: "0.0.0",
    startedAt: 0,
  });
  metrics.watch({
    connections: none,
    floors: none,
    followed: none,
    commands: none,
    pendingCommands: none,
    ownedPartitions: none,
    partitions: none,
    partitionsOf: () => new Map(),
    waitingRuns: async () => undefined,
    waitingNotices: async () => new Map([["billing", 0]]),
    disabledWebhooks: async () => new Map([["billing", false]]),
    isBusAway: () => false,
    droppedLines: none,
  });
  return metrics;
}
