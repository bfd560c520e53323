import { useEffect, useRef, useState } from "react";
import type { Health, Readiness } from "../../src/client/answers.ts";
import { ClientError } from "../../src/client/client-error.ts";
import { useClient } from "../../src/react/provider.ts";
import { useWords } from "../words/words.tsx";
import { quantile, readMetrics, type Sample, total } from "./metrics-text.ts";
import styles from "./node.module.css";
import { Sparkline } from "./sparkline.tsx";

/** A node is asked so often, and only while this view is seen. */
const EVERY_MS = 2_000;
/** Five minutes. */
const KEPT = 150;

interface Reading {
  at: number;
  health: Health;
  ready: Readiness;
  /** Undefined where the caller is no operator. */
  samples: readonly Sample[] | undefined;
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

function Standing({ reading: { health, ready } }: { reading: Reading }) {
  const { say, language } = useWords();
  const { status, missing, catalog } = ready;
  return (
    <div className={styles["standing"]} data-ready={status === "ok"}>
      <p>
        <b>
          <span aria-hidden="true">{status === "ok" ? "●" : "✕"}</span>{" "}
          {say(status === "ok" ? "node.ready" : "node.notready")}
        </b>{" "}
        {missing.join(", ")}
      </p>
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

type Figure = (samples: readonly Sample[]) => number | undefined;

const sum =
  (name: string, labels?: Record<string, string>): Figure =>
  (samples) =>
    total(samples, name, labels);

/** Levels: what there is at the moment. */
const LEVELS = [
  ["node.streams", sum("interlock_connections")],
  ["node.floors", sum("interlock_floors_active")],
  ["node.followed", sum("interlock_floors_followed")],
  ["node.commandswaiting", sum("interlock_commands_waiting")],
  ["node.askswaiting", sum("interlock_asks_waiting")],
  ["node.partitions", sum("interlock_partitions_owned")],
  ["node.allpartitions", sum("interlock_partitions")],
  ["node.busaway", sum("interlock_bus_away")],
  ["node.runs", sum("interlock_runs", { state: "driven" })],
  ["node.runsheld", sum("interlock_runs", { state: "held" })],
  ["node.runswaiting", sum("interlock_runs", { state: "waiting" })],
] as const satisfies readonly (readonly [string, Figure])[];

/** Counters: shown as so many a second between two readings, and how many since the node started. */
const RATES = [
  ["node.commands", sum("interlock_commands_total")],
  ["node.commits", sum("interlock_commit_seconds_count")],
  ["node.conflicts", sum("interlock_commit_conflicts_total")],
  ["node.repeated", sum("interlock_asks_repeated_total")],
  ["node.behind", sum("interlock_followers_behind_total")],
  ["node.slow", sum("interlock_slow_readers_cut_total")],
  ["node.broken", sum("interlock_floors_broken_total")],
  ["node.dropped", sum("interlock_log_lines_dropped_total")],
] as const satisfies readonly (readonly [string, Figure])[];

const TIMES = [
  ["node.committime", "interlock_commit_seconds"],
  ["node.buslag", "interlock_bus_lag_seconds"],
  ["node.runwait", "interlock_run_wait_seconds"],
  ["node.runtime", "interlock_run_seconds"],
] as const;

function Figures({ readings }: { readings: readonly Reading[] }) {
  const { say, number } = useWords();
  const now = readings.at(-1)!.samples!;
  return (
    <dl className={styles["figures"]}>
      {LEVELS.map(([title, figure]) => {
        const values = readings.map(({ samples }) => (samples && figure(samples)) ?? 0);
        const value = figure(now);
        return (
          <div key={title}>
            <dt>{say(title)}</dt>
            <dd>
              <b>{value === undefined ? "–" : number.format(value)}</b>
              <Sparkline values={values} />
            </dd>
          </div>
        );
      })}
      {RATES.map(([title, figure]) => {
        const rates = ratesOf(readings, figure);
        return (
          <div key={title}>
            <dt>{say(title)}</dt>
            <dd>
              <b>
                {number.format(Math.round((rates.at(-1) ?? 0) * 10) / 10)} <small>/s</small>
              </b>
              <Sparkline values={rates} />
              <small>{say("node.sincestart", { count: number.format(figure(now) ?? 0) })}</small>
            </dd>
          </div>
        );
      })}
      {TIMES.map(([title, name]) => {
        const bound = quantile(now, name, 0.99);
        const text =
          bound === undefined ? "–" : Number.isFinite(bound) ? `≤ ${number.format(bound * 1_000)} ms` : "> max";
        return (
          <div key={title}>
            <dt>{say(title)}</dt>
            <dd>
              <b>{text}</b>
              <small>{say("node.p99")}</small>
            </dd>
          </div>
        );
      })}
    </dl>
  );
}

/** A counter that fell was that of a node that started anew: nothing is known of the time between. */
function ratesOf(readings: readonly Reading[], figure: Figure): number[] {
  return readings.slice(1).map((reading, index) => {
    const before = readings[index]!;
    if (!reading.samples || !before.samples) return 0;
    const grown = (figure(reading.samples) ?? 0) - (figure(before.samples) ?? 0);
    return Math.max(0, grown) / Math.max(0.001, (reading.at - before.at) / 1_000);
  });
}
