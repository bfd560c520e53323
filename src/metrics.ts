import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { HostMetrics } from "./actors/hosted-floor.ts";
import type { WorkerMetrics } from "./runs/worker.ts";

/** What is looked up when somebody asks. */
export interface Gauges {
  /** Open event streams. */
  connections: () => number;
  /** Floors whose actors are in memory. */
  floors: () => number;
  /** Floors whose log this node follows. */
  followed: () => number;
  /** Commands in the mailboxes of its floors. */
  commands: () => number;
  /** What it asked floors, here or elsewhere. */
  asks: () => number;
  /** Shares of the floors that it looks after. */
  shares: () => number;
  isBusAway: () => boolean;
}

/** From what a disk in memory takes to what nobody waits for any more, in s. */
const SHORT = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5];
/** From a word to a long piece of work, in s. */
const LONG = [0.1, 0.5, 1, 5, 15, 60, 300, 1_800];
const MS = 1_000;

/** What this node counts, for Prometheus. Names begin with `interlock_`; process metrics with `process_` and `nodejs_`. */
export class Metrics implements HostMetrics, WorkerMetrics {
  readonly #registry = new Registry();
  readonly #commands;
  readonly #batches;
  readonly #commits;
  readonly #conflicts;
  readonly #broken;
  readonly #repeated;
  readonly #lags;
  readonly #behind;
  readonly #slowReaders;
  readonly #waits;
  readonly #runs;
  readonly #underWay;

  constructor(gauges: Gauges) {
    const registers = [this.#registry];
    collectDefaultMetrics({ register: this.#registry });
    const gauge = (name: string, help: string, read: () => number) =>
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(read());
        },
      });
    const counter = <L extends string>(name: string, help: string, ...labelNames: L[]) =>
      new Counter({ name, help, labelNames, registers });
    const histogram = <L extends string>(name: string, help: string, buckets: number[], ...labelNames: L[]) =>
      new Histogram({ name, help, buckets, labelNames, registers });

    gauge("interlock_connections", "open event streams", gauges.connections);
    gauge("interlock_floors_active", "floors whose actors are in memory", gauges.floors);
    gauge("interlock_floors_followed", "floors whose log is followed for readers", gauges.followed);
    gauge("interlock_commands_waiting", "commands that floors of this node have not answered yet", gauges.commands);
    gauge("interlock_asks_waiting", "asks of this node that no floor has answered yet", gauges.asks);
    gauge("interlock_shares_owned", "shares of the floors that this node looks after", gauges.shares);
    gauge("interlock_bus_away", "1 while it is known that nothing arrives over the bus", () =>
      gauges.isBusAway() ? 1 : 0,
    );
    this.#commands = counter("interlock_commands_total", "commands answered, by type and outcome", "type", "outcome");
    this.#batches = histogram(
      "interlock_commit_commands",
      "commands of one floor that shared a commit",
      [1, 2, 4, 8, 16, 32, 64],
    );
    this.#commits = histogram("interlock_commit_seconds", "how long the store took to commit", SHORT);
    this.#conflicts = counter(
      "interlock_commit_conflicts_total",
      "commits refused because the floor or a key had changed",
    );
    this.#broken = counter("interlock_floors_broken_total", "commands that broke their floor, by what broke", "what");
    this.#repeated = counter("interlock_asks_repeated_total", "asks sent again because no answer had come for 500 ms");
    this.#lags = histogram("interlock_bus_lag_seconds", "from a commit to a follower that hears of it", SHORT);
    this.#behind = counter(
      "interlock_followers_behind_total",
      "times the store had something for a follower that the bus had not brought",
    );
    this.#slowReaders = counter(
      "interlock_slow_readers_cut_total",
      "event streams cut because their reader took nothing",
    );
    this.#waits = histogram("interlock_run_wait_seconds", "how long runs waited for a worker", LONG);
    this.#runs = histogram(
      "interlock_run_seconds",
      "how long attempts took, by agent and outcome",
      LONG,
      "agent",
      "outcome",
    );
    this.#underWay = new Gauge({
      name: "interlock_runs",
      help: "runs this worker drives, and those it holds",
      labelNames: ["state"],
      registers,
    });
  }

  command(type: string, outcome: string): void {
    this.#commands.inc({ type, outcome });
  }

  batch(commands: number, durationMs: number): void {
    this.#batches.observe(commands);
    this.#commits.observe(durationMs / MS);
  }

  conflict(): void {
    this.#conflicts.inc();
  }

  broken(what: "snapshot" | "actors" | "commit"): void {
    this.#broken.inc({ what });
  }

  askRepeated(): void {
    this.#repeated.inc();
  }

  commitHeard(lagMs: number): void {
    this.#lags.observe(lagMs / MS);
  }

  followerBehind(): void {
    this.#behind.inc();
  }

  slowReaderCut(): void {
    this.#slowReaders.inc();
  }

  runTaken(waitMs: number): void {
    this.#waits.observe(waitMs / MS);
  }

  runEnded(agent: string, outcome: string, durationMs: number): void {
    this.#runs.observe({ agent, outcome }, durationMs / MS);
  }

  runsUnderWay(driven: number, held: number): void {
    this.#underWay.set({ state: "driven" }, driven);
    this.#underWay.set({ state: "held" }, held);
  }

  async read(): Promise<{ contentType: string; text: string }> {
    return { contentType: this.#registry.contentType, text: await this.#registry.metrics() };
  }
}
