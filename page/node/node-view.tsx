import { useState } from "react";
import type { Health, Readiness } from "../../src/client/answers.ts";
import { ClientError } from "../../src/client/client-error.ts";
import { useClient } from "../../src/react/hooks.ts";
import { Faults } from "../parts/faults.tsx";
import { usePolled } from "../parts/use-polled.ts";
import { failureText } from "../words/failure-text.ts";
import { useWords } from "../words/words.tsx";
import { type Counted, Figures } from "./figures.tsx";
import { metricLabelOf, readMetrics } from "./metrics-text.ts";
import styles from "./node.module.css";
import { Nodes, shortOf } from "./nodes.tsx";
import type { RollCalled } from "./roll-called.ts";
import { Runs, type RunsRead } from "./runs.tsx";
import { DailyUsage } from "./usage.tsx";
import { WebhookList } from "./webhook-list.tsx";

/** The interval of the readings, which only happen while this view is visible, in ms. */
const EVERY_MS = 2_000;
/** The maximum number of runs in the table, and of failures. */
const RUNS = 50;
const FAILURES = 10;
/** Five minutes. */
const KEPT = 150;

interface Reading extends Counted, RollCalled {
  health: Health;
  ready: Readiness;
  runs: RunsRead;
}

/**
 * What every node does, and the metrics of the node that serves this page: streams, commands, commits, queues, faults.
 */
export function NodeView() {
  const { say } = useWords();
  const { readings, failure } = useReadings();
  const now = readings.at(-1);
  return (
    <section className={styles["view"]} aria-labelledby="node">
      <h1 id="node">{say("node.title")}</h1>
      {failure && <p role="alert">{say("node.failed", { reason: failureText(failure, say) })}</p>}
      {!now && !failure && <p className={styles["quiet"]}>{say("node.loading")}</p>}
      {now && <NodeStatus reading={now} />}
      {now && !now.samples && <p className={styles["quiet"]}>{say("node.operators")}</p>}
      <Nodes readings={readings} />
      {now && <Runs read={now.runs} now={now.at} />}
      {now?.samples && <WebhookList />}
      <DailyUsage />
      {now?.samples && <Figures readings={ofOneNode(readings)} />}
    </section>
  );
}

function useReadings(): { readings: readonly Reading[]; failure: Error | undefined } {
  const client = useClient();
  const [readings, setReadings] = useState<readonly Reading[]>([]);
  const [failure, setFailure] = useState<Error>();
  const read = async (signal: AbortSignal) => {
    try {
      const [health, ready, text, list, runs, failed] = await Promise.all([
        client.getHealth({ signal }),
        client.getReadiness({ signal }),
        client.getMetrics({ signal }).catch(nothingForOthers),
        client.listNodes({ signal }).catch(nothingForOthers),
        client.listRuns({ limit: RUNS }, { signal }),
        client.listRuns({ state: "failed", limit: FAILURES }, { signal }),
      ]);
      const samples = text === undefined ? undefined : readMetrics(text);
      const reading = {
        at: Date.now(),
        health,
        ready,
        samples,
        nodes: undefined,
        ...list,
        runs: { runs: runs.runs, failed: failed.runs, hasMore: runs.next !== undefined },
      };
      setReadings((known) => [...known.slice(1 - KEPT), reading]);
      setFailure(undefined);
    } catch (error) {
      if (!signal.aborted) setFailure(error as Error);
    }
  };
  usePolled(read, EVERY_MS, client);
  return { readings, failure };
}

/** Only operators get a node's figures. */
function nothingForOthers(error: unknown): undefined {
  if (error instanceof ClientError && (error.status === 403 || error.status === 401)) return undefined;
  throw error;
}

/** The readings of the node that answered last, because behind a load balancer each request may reach another node. */
function ofOneNode(readings: readonly Reading[]): Reading[] {
  const nodeOf = ({ samples }: Reading) => samples && metricLabelOf(samples, INFO, "node");
  const last = nodeOf(readings.at(-1)!);
  return readings.filter((reading) => nodeOf(reading) === last);
}

function NodeStatus({ reading: { health, ready, samples } }: { reading: Reading }) {
  const { say, language } = useWords();
  const { status, missing, catalog } = ready;
  const roles = samples && metricLabelOf(samples, INFO, "roles");
  const id = samples && metricLabelOf(samples, INFO, "node");
  return (
    <div className={styles["status"]} data-ready={status === "ok"}>
      <p>
        <b>
          <span aria-hidden="true">{status === "ok" ? "●" : "✕"}</span>{" "}
          {say(status === "ok" ? "node.ready" : "node.notready")}
        </b>{" "}
        {missing.join(", ")}
      </p>
      {roles !== undefined && id !== undefined && (
        <p>
          {say("node.roles", { roles: roles.split(",").join(", ") })} · <code title={id}>{shortOf(id)}</code>
        </p>
      )}
      <p>
        {say("node.version", { version: health.version })} · {say("node.catalog")}{" "}
        <code>{catalog.hash.slice(0, 12)}</code> {new Date(catalog.loadedAt).toLocaleString(language)}
      </p>
      {catalog.faults && catalog.faults.length > 0 && <Faults faults={catalog.faults} />}
    </div>
  );
}

const INFO = "interlock_node_info";
