import type { ReactNode } from "react";
import type { WordKey } from "../words/en.ts";
import { useWords } from "../words/words.tsx";
import { largestBound, quantile, type Sample, total } from "./metrics-text.ts";
import styles from "./node.module.css";
import { perSecond } from "./roll-called.ts";
import { Sparkline } from "./sparkline.tsx";

/** A node's metrics at a moment. */
export interface Counted {
  at: number;
  /** Undefined if the caller is not an operator. */
  samples: readonly Sample[] | undefined;
}

type Figure = (samples: readonly Sample[]) => number | undefined;

const sum =
  (name: string, labels?: Record<string, string>): Figure =>
  (samples) =>
    total(samples, name, labels);

/** Gauges: current values. */
const LEVELS = [
  ["node.streams", sum("interlock_connections")],
  ["node.floors", sum("interlock_floors_active")],
  ["node.followed", sum("interlock_floors_followed")],
  ["node.runs", sum("interlock_runs", { state: "driven" })],
  ["node.runsheld", sum("interlock_runs", { state: "held" })],
  ["node.runswaiting", sum("interlock_runs", { state: "waiting" })],
] as const satisfies readonly (readonly [WordKey, Figure])[];

/** Counters of work: the rate between two readings, and the total since the node started. */
const RATES = [
  ["node.commands", sum("interlock_commands_total")],
  ["node.commits", sum("interlock_commit_seconds_count")],
] as const satisfies readonly (readonly [WordKey, Figure])[];

/** The queues' current lengths. */
const QUEUES = [
  ["node.commandswaiting", sum("interlock_commands_waiting")],
  ["node.unanswered", sum("interlock_commands_unanswered")],
] as const satisfies readonly (readonly [WordKey, Figure])[];

const TIMES = [
  ["node.committime", "interlock_commit_seconds"],
  ["node.buslag", "interlock_bus_lag_seconds"],
  ["node.runwait", "interlock_run_wait_seconds"],
  ["node.runtime", "interlock_run_seconds"],
] as const satisfies readonly (readonly [WordKey, string])[];

/** Counters of faults: the total since the node started, and the recent increase. */
const TROUBLES = [
  ["node.slow", sum("interlock_slow_readers_cut_total")],
  ["node.lapsed", sum("interlock_leases_expired_total")],
  ["node.conflicts", sum("interlock_commit_conflicts_total")],
  ["node.repeated", sum("interlock_commands_repeated_total")],
  ["node.behind", sum("interlock_followers_behind_total")],
  ["node.broken", sum("interlock_floors_broken_total")],
  ["node.dropped", sum("interlock_log_lines_dropped_total")],
] as const satisfies readonly (readonly [WordKey, Figure])[];

interface Props {
  /** The newest last, each with its samples. */
  readings: readonly Counted[];
}

/** A node's metrics: its load, its queues, and its faults. */
export function Figures({ readings }: Props) {
  const { say, number } = useWords();
  const now = readings.at(-1)!.samples!;
  return (
    <>
      <Group title="node.load">
        {LEVELS.map(([title, figure]) => (
          <Level key={title} title={title} figure={figure} readings={readings} />
        ))}
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
      </Group>
      <Group title="node.delays">
        {QUEUES.map(([title, figure]) => (
          <Level key={title} title={title} figure={figure} readings={readings} />
        ))}
        {TIMES.map(([title, name]) => {
          const bound = quantile(now, name, 0.99);
          const last = largestBound(now, name);
          const text =
            bound === undefined
              ? "–"
              : Number.isFinite(bound)
                ? `≤ ${number.format(bound * 1_000)} ms`
                : `> ${number.format(last * 1_000)} ms`;
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
      </Group>
      <Group title="node.trouble">
        <Trouble title="node.busaway" isBad={(total(now, "interlock_bus_away") ?? 0) > 0} />
        {TROUBLES.map(([title, figure]) => {
          const lately = (figure(now) ?? 0) - (readings.map(({ samples }) => samples && figure(samples))[0] ?? 0);
          return <Trouble key={title} title={title} isBad={lately > 0} count={figure(now) ?? 0} lately={lately} />;
        })}
      </Group>
    </>
  );
}

function Group({ title, children }: { title: WordKey; children: ReactNode }) {
  const { say } = useWords();
  return (
    <section aria-label={say(title)}>
      <h2>{say(title)}</h2>
      <dl className={styles["figures"]}>{children}</dl>
    </section>
  );
}

function Level({ title, figure, readings }: Props & { title: WordKey; figure: Figure }) {
  const { say, number } = useWords();
  const values = readings.map(({ samples }) => samples && figure(samples));
  const value = values.at(-1);
  return (
    <div>
      <dt>{say(title)}</dt>
      <dd>
        <b>{value === undefined ? "–" : number.format(value)}</b>
        <Sparkline values={values.map((each) => each ?? 0)} />
      </dd>
    </div>
  );
}

interface TroubleProps {
  title: WordKey;
  /** Whether it happens now, or happened within the readings. */
  isBad: boolean;
  /** Absent for a fault that is either present or not. */
  count?: number;
  lately?: number;
}

function Trouble({ title, isBad, count, lately = 0 }: TroubleProps) {
  const { say, number } = useWords();
  return (
    <div data-bad={isBad}>
      <dt>{say(title)}</dt>
      <dd>
        <b>
          {isBad && <span aria-hidden="true">! </span>}
          {count === undefined ? say(isBad ? "node.yes" : "node.no") : number.format(count)}
        </b>
        {count !== undefined && <small>{say("node.lately", { count: number.format(Math.max(0, lately)) })}</small>}
      </dd>
    </div>
  );
}

function ratesOf(readings: readonly Counted[], figure: Figure): number[] {
  const counts = readings.map(({ at, samples }) => samples && { at, count: figure(samples) ?? 0 });
  return counts.slice(1).map((now, index) => {
    const before = counts[index];
    return now && before ? perSecond(before, now) : 0;
  });
}
