import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { root } from "../../docs/page.ts";
import { writeTemporary } from "../../support/clients/callers.ts";
import { E2eClient } from "../../support/clients/e2e-client.ts";
import { metricOf } from "../../support/clients/node-client.ts";
import { dashboardQueries } from "../../support/documents/dashboard.ts";
import { documentsOf } from "../../support/documents/deployment.ts";
import { promtool } from "../../support/documents/promtool.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { testWith } from "../../support/programs/suites.ts";
import { HookReceiver, webhooksFile } from "../../support/servers/hook-receiver.ts";

/** Every test of a file of rules holds. */
async function expectSuccess(path: string, file: object): Promise<void> {
  const rules = await writeTemporary("rules.json", JSON.stringify(file), onTestFinished);
  const said = expect.stringContaining("SUCCESS");
  expect(await promtool(path, ["test", "rules", rules])).toEqual({ code: 0, said });
}

/**
 * The series of a scrape, each with the value that it has, for 20 minutes. The mean lag of the event loop is NaN right
 * after another scrape, which promtool's notation does not have.
 */
function seriesOf(metrics: string) {
  const lines = metrics.split("\n").filter((line) => line !== "" && !line.startsWith("#") && !line.endsWith(" Nan"));
  return lines.map((line) => {
    const [, name, labels = "", value] = /^([\w:]+)(?:\{(.*)\})? (\S+)$/.exec(line)!;
    const all = [labels, 'instance="n0"'].filter((each) => each !== "").join();
    return { series: `${name}{${all}}`, values: `${value!.replace("+Inf", "Inf")}x80` };
  });
}

testWith(
  ["promtool"],
  "promtool finds no fault in the metrics of a node that works, in which every query of the dashboard finds something",
  async (path) => {
    const receiver = await HookReceiver.start();
    onTestFinished(() => receiver[Symbol.asyncDispose]());
    const hooks = webhooksFile([{ name: "told", url: receiver.url, types: ["turn.ended"] }]);
    const file = await writeTemporary("webhooks.yaml", hooks, onTestFinished);
    const node = await NodeUnderTest.start({ settings: { INTERLOCK_WEBHOOKS: file } }, onTestFinished);
    const user = new E2eClient(node);
    const { id } = await user.create("general");
    await user.talk(id, "hello");
    const told = 'interlock_webhook_notices_total{webhook="told",outcome="accepted"}';
    await expect.poll(() => metricOf(node, told)).toBe(1);
    const { text } = await node.get("/metrics");
    expect(text).toContain("interlock_commands_total{");
    expect(await promtool(path, ["check", "metrics"], text)).toEqual({ code: 0, said: "" });
    const asked = dashboardQueries.map(({ expr }) => ({
      expr: `count(${expr}) > bool 0`,
      eval_time: "15m",
      exp_samples: [{ labels: "{}", value: 1 }],
    }));
    const tests = [{ interval: "15s", input_series: seriesOf(text), promql_expr_test: asked }];
    await expectSuccess(path, { rule_files: [], tests });
  },
);

interface Rule {
  alert: string;
  labels: { severity: string };
  annotations: { summary: string };
}
const [{ groups }] = documentsOf("alerts.yaml") as [{ groups: { rules: Rule[] }[] }];
const rules = groups.flatMap((group) => group.rules);

/** Series by their selectors, with a value every 15 s for 20 minutes in promtool's notation. */
type Series = Record<string, string>;
interface AlertCase {
  fault: Series;
  /** Nearly the fault, or a fault that is over. */
  calm: Series;
  /** Labels of the alert besides its severity. */
  labels?: Record<string, string>;
  /** Default: the rule's own, if it has no variables. */
  summary?: string;
}

/** A histogram of which so many observations in a hundred are above `le`. */
const durations = (name: string, le: number, above: number): Series => ({
  [`${name}_bucket{le="${le}"}`]: `0+${100 - above}x80`,
  [`${name}_bucket{le="${2 * le}"}`]: "0+100x80",
  [`${name}_bucket{le="+Inf"}`]: "0+100x80",
});
const owned = (...partitions: number[]): Series =>
  Object.fromEntries(
    partitions.flatMap((count, index) => [
      [`interlock_partitions_owned{instance="n${index}"}`, `${count}x80`],
      [`interlock_partitions{instance="n${index}"}`, "64x80"],
    ]),
  );
const commands = (unavailable: number): Series => ({
  'interlock_commands_total{type="session.chat",outcome="ok"}': "0+1000x80",
  'interlock_commands_total{type="session.chat",outcome="unavailable"}': `0+${unavailable}x80`,
});

const CASES: Record<string, AlertCase> = {
  InterlockFloorBroken: {
    fault: { 'interlock_floors_broken_total{what="commit"}': "0x50 1x30" },
    calm: { 'interlock_floors_broken_total{what="commit"}': "3x80" },
    labels: { what: "commit" },
    summary: "Commands break their floor (commit): the log says which and why.",
  },
  InterlockBusAway: {
    fault: { 'interlock_bus_away{instance="n0"}': "0x50 1x30", 'interlock_bus_away{instance="n1"}': "0x80" },
    calm: { 'interlock_bus_away{instance="n0"}': "1x50 0x30" },
    labels: { instance: "n0" },
    summary: "n0 hears nothing over Redis: what it is asked to do is unavailable.",
  },
  InterlockFloorsUnowned: {
    fault: owned(32, 31),
    calm: owned(32, 32, 0),
    summary: "63 partitions of the floors have an owner, of 64.",
  },
  InterlockUnavailable: { fault: commands(20), calm: commands(5) },
  InterlockAsksUnanswered: {
    fault: { interlock_commands_repeated_total: "0+30x80" },
    calm: { interlock_commands_repeated_total: "0+6x80" },
  },
  InterlockCommitsSlow: {
    fault: durations("interlock_commit_seconds", 0.1, 5),
    calm: durations("interlock_commit_seconds", 0.1, 0),
  },
  InterlockEventsLate: {
    fault: durations("interlock_bus_lag_seconds", 0.5, 5),
    calm: durations("interlock_bus_lag_seconds", 0.5, 0),
  },
  InterlockRunsNotQueued: {
    fault: { interlock_effects_not_queued_total: "0x50 1+1x30" },
    calm: { interlock_effects_not_queued_total: "7x80" },
  },
  InterlockRunsNotTaken: {
    fault: { 'interlock_runs_waiting_seconds{instance="n0"}': "0x50 15+15x30" },
    calm: { 'interlock_runs_waiting_seconds{instance="n0"}': "15x80" },
  },
  InterlockWebhookStuck: {
    fault: { 'interlock_webhook_notices_waiting{webhook="billing"}': "0x20 2000x60" },
    calm: { 'interlock_webhook_notices_waiting{webhook="billing"}': "2000x50 3x30" },
    labels: { webhook: "billing" },
    summary: "The receiver of billing accepts no notices: interlock webhooks says why.",
  },
  InterlockWebhookDisabled: {
    fault: { 'interlock_webhook_disabled{webhook="billing"}': "0x50 1x30" },
    calm: { 'interlock_webhook_disabled{webhook="billing"}': "1x50 0x30" },
    labels: { webhook: "billing" },
    summary: "The receiver of billing answered that it is gone: nothing is sent until its webhook is enabled.",
  },
  InterlockWebhookDropped: {
    fault: { 'interlock_webhook_notices_total{webhook="billing",outcome="dropped"}': "0x50 3x30" },
    calm: {
      'interlock_webhook_notices_total{webhook="billing",outcome="dropped"}': "3x80",
      'interlock_webhook_notices_total{webhook="billing",outcome="accepted"}': "0+5x80",
    },
    labels: { webhook: "billing" },
    summary: "Notices for billing were dropped: its receiver has not accepted them.",
  },
  InterlockRunsWait: {
    fault: durations("interlock_run_wait_seconds", 1, 10),
    calm: durations("interlock_run_wait_seconds", 1, 2),
  },
  InterlockNodeBusy: {
    fault: { 'nodejs_eventloop_lag_p99_seconds{instance="n0"}': "0.2x80" },
    calm: { 'nodejs_eventloop_lag_p99_seconds{instance="n0"}': "0.2x50 0.02x30" },
    labels: { instance: "n0" },
    summary: "n0 is busy: add nodes of its role.",
  },
};

/** Promtool's test of all rules with these series, of which one alert fires, or none. */
function play(series: Series, firing?: string, summary = CASES[firing ?? ""]?.summary): object {
  const labels = CASES[firing ?? ""]?.labels;
  const expected = ({ labels: { severity }, annotations }: Rule) => ({
    exp_labels: { severity, ...labels },
    exp_annotations: { summary: summary ?? annotations.summary },
  });
  return {
    interval: "15s",
    input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
    alert_rule_test: rules.map((rule) => ({
      eval_time: "15m",
      alertname: rule.alert,
      exp_alerts: rule.alert === firing ? [expected(rule)] : [],
    })),
  };
}

test("every alert that is shipped has a case", () => {
  expect(Object.keys(CASES)).toEqual(rules.map(({ alert }) => alert));
});

testWith(["promtool"], "every alert fires in its fault, alone, and not otherwise", async (path) => {
  const tests = Object.entries(CASES).flatMap(([alert, { fault, calm }]) => [play(fault, alert), play(calm)]);
  const twice = "65 partitions of the floors have an owner, of 64.";
  tests.push(play(owned(64, 1), "InterlockFloorsUnowned", twice));
  await expectSuccess(path, { rule_files: [join(root, "deploy/alerts.yaml")], tests });
});
