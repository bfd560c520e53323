import { expect, test } from "vitest";
import { largestBound, metricLabelOf, quantile, readMetrics, total } from "../../../page/node/metrics-text.ts";

const TEXT = `# HELP a help
# TYPE a counter
a{type="x",outcome="ok"} 3
a{type="y",outcome="no \\"way\\", {really}"} 4
b 1.5e3
b_seconds_bucket{le="0.1"} 98
b_seconds_bucket{le="1"} 99
b_seconds_bucket{le="+Inf"} 100
c NaN
not a line at all
`;

test("a node's metrics are read with labels of any content", () => {
  const samples = readMetrics(TEXT);
  expect(samples).toHaveLength(6);
  expect(samples[1]).toEqual({ name: "a", labels: { type: "y", outcome: 'no "way", {really}' }, value: 4 });
});

test("a node's metrics are summed over labels, and absent ones are not zero", () => {
  const samples = readMetrics(TEXT);
  expect(total(samples, "a")).toBe(7);
  expect(total(samples, "a", { type: "x" })).toBe(3);
  expect(total(samples, "b")).toBe(1_500);
  expect(total(samples, "none")).toBeUndefined();
});

test("a node's metrics name the node, and list the orchestrators' shares in the order of their ids", () => {
  const samples = readMetrics(`info{node="b",roles="gateway,orchestrator"} 1
interlock_orchestrator_partitions{node="b"} 100
interlock_orchestrator_partitions{node="a"} 156
`);
  expect(metricLabelOf(samples, "info", "roles")).toBe("gateway,orchestrator");
  expect(metricLabelOf(samples, "none", "roles")).toBeUndefined();
});

test("a quantile is the upper bound of the observations' bucket", () => {
  const samples = readMetrics(TEXT);
  expect([0.5, 0.99, 1].map((part) => quantile(samples, "b_seconds", part))).toEqual([0.1, 1, Infinity]);
  expect(largestBound(samples, "b_seconds")).toBe(1);
  expect(quantile(samples, "none", 0.5)).toBeUndefined();
});
