import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect } from "vitest";
import { root } from "../../docs/page.ts";
import { E2eClient } from "../../support/clients/e2e-client.ts";
import { promtool } from "../../support/documents/promtool.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { testWith } from "../../support/programs/suites.ts";

const folder = await mkdtemp(join(tmpdir(), "interlock-promtool-"));
afterAll(() => rm(folder, { recursive: true }));

testWith(["promtool"], "promtool finds no fault in the metrics of a node that did some work", async (path) => {
  const node = await NodeUnderTest.start();
  try {
    const user = new E2eClient(node);
    await user.hold("music");
    const { text } = await node.get("/metrics");
    expect(text).toContain("interlock_commands_total{");
    expect(await promtool(path, ["check", "metrics"], text)).toEqual({ code: 0, said: "" });
  } finally {
    await node.stop();
  }
});

testWith(
  ["promtool"],
  "the alerts on unowned floors and on runs that no worker takes fire in their faults",
  async (path) => {
    const node = (instance: string, owned: number) => [
      { series: `interlock_partitions_owned{instance="${instance}"}`, values: `${owned}x5` },
      { series: `interlock_partitions{instance="${instance}"}`, values: "64x5" },
    ];
    const label = { exp_labels: { severity: "page" } };
    const after = (owned: readonly number[], alerts: object[]) => ({
      interval: "1m",
      input_series: owned.flatMap((partitions, index) => node(`n${index}`, partitions)),
      alert_rule_test: [{ eval_time: "3m", alertname: "InterlockFloorsUnowned", exp_alerts: alerts }],
    });
    const file = join(folder, "alerts.json");
    const summary = (owned: number) => ({
      exp_annotations: { summary: `${owned} partitions of the floors have an owner, of 64.` },
    });
    const tests = [
      after([32, 32, 0], []),
      after([32, 31], [{ ...label, ...summary(63) }]),
      after([64, 1], [{ ...label, ...summary(65) }]),
    ];
    const waits = (seconds: string, alerts: object[]) => ({
      interval: "1m",
      input_series: [{ series: 'interlock_runs_waiting_seconds{instance="n0"}', values: seconds }],
      alert_rule_test: [{ eval_time: "3m", alertname: "InterlockRunsNotTaken", exp_alerts: alerts }],
    });
    const why = "No worker takes a run that waits for more than 30 s: GET /nodes says whether there is one.";
    tests.push(waits("0x5", []), waits("0 40 100 160", [{ ...label, exp_annotations: { summary: why } }]));
    await writeFile(file, JSON.stringify({ rule_files: [join(root, "deploy/alerts.yaml")], tests }));
    expect(await promtool(path, ["test", "rules", file])).toMatchObject({ code: 0 });
  },
);
