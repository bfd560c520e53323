import { useEffect, useRef, useState } from "react";
import type { Health, Readiness } from "../../src/client/answers.ts";
import { ClientError } from "../../src/client/client-error.ts";
import { useClient } from "../../src/react/provider.ts";
import { useWords } from "../words/words.tsx";
import { type Counted, Figures } from "./figures.tsx";
import { labelOf, partitionsOf, readMetrics, type Sample } from "./metrics-text.ts";
import styles from "./node.module.css";

/** A node is asked so often, and only while this view is seen. */
const EVERY_MS = 2_000;
/** Five minutes. */
const KEPT = 150;

interface Reading extends Counted {
  health: Health;
  ready: Readiness;
}

/** What the node that serves this page says of itself: ready or why not, streams, commands, commits, queues, faults. */
export function NodeView() {
  const { say } = useWords();
  const { readings, failure } = useReadings();
  const now = readings.at(-1);
  return (
    <section className={styles["view"]} aria-labelledby="node">
      <h1 id="node">{say("node.title")}</h1>
      {failure && <p role="alert">{say("node.failed", { reason: failure })}</p>}
      {!now && !failure && <p className={styles["quiet"]}>{say("node.loading")}</p>}
      {now && <Standing reading={now} />}
      {now && !now.samples && <p className={styles["quiet"]}>{say("node.operators")}</p>}
      {now?.samples && <Orchestrators samples={now.samples} />}
      {now?.samples && <Figures readings={readings} />}
    </section>
  );
}

function useReadings(): { readings: readonly Reading[]; failure: string | undefined } {
  const client = useClient();
  const [readings, setReadings] = useState<readonly Reading[]>([]);
  const [failure, setFailure] = useState<string>();
  const isAsking = useRef(false);
  useEffect(() => {
    const leaving = new AbortController();
    const { signal } = leaving;
    const ask = async () => {
      if (isAsking.current || document.hidden) return;
      isAsking.current = true;
      try {
        const metrics = client.getMetrics({ signal }).catch((error: unknown) => {
          if (error instanceof ClientError && (error.status === 403 || error.status === 401)) return undefined;
          throw error;
        });
        const [health, ready, text] = await Promise.all([
          client.getHealth({ signal }),
          client.getReadiness({ signal }),
          metrics,
        ]);
        const samples = text === undefined ? undefined : readMetrics(text);
        setReadings((known) => [...known.slice(1 - KEPT), { at: Date.now(), health, ready, samples }]);
        setFailure(undefined);
      } catch (error) {
        if (!signal.aborted) setFailure((error as Error).message);
      } finally {
        isAsking.current = false;
      }
    };
    void ask();
    const timer = setInterval(() => void ask(), EVERY_MS);
    return () => {
      clearInterval(timer);
      leaving.abort();
    };
  }, [client]);
  return { readings, failure };
}

function Standing({ reading: { health, ready, samples } }: { reading: Reading }) {
  const { say, language } = useWords();
  const { status, missing, catalog } = ready;
  const roles = samples && labelOf(samples, INFO, "roles");
  const id = samples && labelOf(samples, INFO, "node");
  return (
    <div className={styles["standing"]} data-ready={status === "ok"}>
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
      {catalog.faults && catalog.faults.length > 0 && (
        <ul>
          {catalog.faults.map(({ line, column, path, message }) => (
            <li key={`${line}:${column}:${path}`}>
              <code>{`${line}:${column} ${path}`}</code> {message}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

const INFO = "interlock_node_info";
/** The ends of two ids that were made at about the same time differ. */
const shortOf = (id: string): string => id.slice(-8);

/** Who decides about which part of the floors; a node that is no orchestrator does not know. */
function Orchestrators({ samples }: { samples: readonly Sample[] }) {
  const { say, number } = useWords();
  const own = labelOf(samples, INFO, "node");
  const owners = partitionsOf(samples);
  const all = owners.reduce((sum, { value }) => sum + value, 0);
  if (owners.length === 0) return undefined;
  return (
    <section aria-labelledby="orchestrators">
      <h2 id="orchestrators">{say("node.orchestrators", { count: number.format(owners.length) })}</h2>
      <ul className={styles["nodes"]}>
        {owners.map(({ node, value }) => (
          <li key={node}>
            <code title={node}>{shortOf(node)}</code>
            <span className={styles["meter"]} aria-hidden="true">
              <span style={{ width: `${(value / Math.max(1, all)) * 100}%` }} />
            </span>
            {say("node.partitionsof", { count: number.format(value), all: number.format(all) })}
            {node === own && <b> {say("node.this")}</b>}
          </li>
        ))}
      </ul>
    </section>
  );
}
