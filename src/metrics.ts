import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { HostMetrics } from "./actors/hosted-floor.ts";
import type { WorkerMetrics } from "./runs/worker.ts";

export interface Gauges {
  /** Open event streams. */
  connections: () => number;
  /** Floors whose actors are in memory. */
  floors: () => number;
  /** Floors whose log this node follows. */
  followed: () => number;
}

/** What this node counts, for Prometheus. Names begin with `interlock_`; process metrics with `process_` and `nodejs_`. */
export class Metrics implements HostMetrics, WorkerMetrics {
  readonly #registry = new Registry();
  readonly #commands;
  readonly #batches;
  readonly #conflicts;
  readonly #broken;
  readonly #slowReaders;
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
    gauge("interlock_connections", "open event streams", gauges.connections);
    gauge("interlock_floors_active", "floors whose actors are in memory", gauges.floors);
    gauge("interlock_floors_followed", "floors whose log is followed for readers", gauges.followed);
    this.#commands = new Counter({
      name: "interlock_commands_total",
      help: "commands answered, by type and outcome",
      labelNames: ["type", "outcome"],
      registers,
    });
    this.#batches = new Histogram({
      name: "interlock_commit_commands",
      help: "commands of one floor that shared a commit",
      buckets: [1, 2, 4, 8, 16, 32, 64],
      registers,
    });
    this.#conflicts = new Counter({
      name: "interlock_commit_conflicts_total",
      help: "commits refused because the floor or a key had changed",
      registers,
    });
    this.#broken = new Counter({
      name: "interlock_floors_broken_total",
      help: "commands that broke their floor, by what broke",
      labelNames: ["what"],
      registers,
    });
    this.#slowReaders = new Counter({
      name: "interlock_slow_readers_cut_total",
      help: "event streams cut because their reader took nothing",
      registers,
    });
    this.#runs = new Histogram({
      name: "interlock_run_seconds",
      help: "how long attempts took, by agent and outcome",
      labelNames: ["agent", "outcome"],
      buckets: [0.1, 0.5, 1, 5, 15, 60, 300, 1_800],
      registers,
    });
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

  batch(commands: number): void {
    this.#batches.observe(commands);
  }

  conflict(): void {
    this.#conflicts.inc();
  }

  broken(what: "snapshot" | "actors" | "commit"): void {
    this.#broken.inc({ what });
  }

  slowReaderCut(): void {
    this.#slowReaders.inc();
  }

  runEnded(agent: string, outcome: string, durationMs: number): void {
    this.#runs.observe({ agent, outcome }, durationMs / 1_000);
  }

  runsUnderWay(driven: number, held: number): void {
    this.#underWay.set({ state: "driven" }, driven);
    this.#underWay.set({ state: "held" }, held);
  }

  async read(): Promise<{ contentType: string; text: string }> {
    return { contentType: this.#registry.contentType, text: await this.#registry.metrics() };
  }
}
