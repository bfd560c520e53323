import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { HostMetrics } from "../actors/host/loaded-floor.ts";
import type { NodeReport, RunFailure } from "../protocol/internal/node-report.ts";
import type { RunPurpose, WorkerMetrics } from "../runs/worker.ts";

export interface NodeIdentity {
  /** Its id among the nodes, made anew whenever it starts. */
  node: string;
  /** The operator's name for it. */
  name: string;
  roles: readonly NodeReport["roles"][number][];
  version: string;
  /** ms since 1970. */
  startedAt: number;
}

/** The numbers that are read at each scrape: the name and the meaning of each. */
const GAUGES = {
  connections: ["interlock_connections", "open event streams"],
  floors: ["interlock_floors_active", "floors whose actors are in memory"],
  followed: ["interlock_floors_followed", "floors whose log is followed for readers"],
  commands: ["interlock_commands_waiting", "commands that floors of this node have not answered yet"],
  pendingCommands: ["interlock_commands_unanswered", "commands of this node that no floor has answered yet"],
  ownedPartitions: ["interlock_partitions_owned", "partitions of the floors that this node owns"],
  partitions: ["interlock_partitions", "partitions into which floors are divided, over all nodes"],
} as const;

/** What is read at each scrape. */
export interface Gauges extends Record<keyof typeof GAUGES, () => number> {
  /**
   * How many partitions fall to each orchestrator that is alive, by its node's id; empty on a node without that role.
   */
  partitionsOf: () => ReadonlyMap<string, number>;
  /**
   * The runs that wait for a worker, and for how long the oldest has, in ms; undefined on a node that is no
   * orchestrator.
   */
  waitingRuns: () => Promise<{ count: number; oldestMs: number } | undefined>;
  /** How many notices wait for each webhook's receiver; undefined on a node that sends none. */
  waitingNotices: () => Promise<ReadonlyMap<string, number> | undefined>;
  /** Whether each webhook is disabled; undefined on a node that sends none. */
  disabledWebhooks: () => Promise<ReadonlyMap<string, boolean> | undefined>;
  isBusAway: () => boolean;
  /** Output lines that could not be written since the process began. */
  droppedLines: () => number;
}

/** Buckets in s: from the time of an in-memory disk to times beyond any client's patience. */
const SHORT = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5];
/** Buckets in s: from a one-word reply to a long task. */
const LONG = [0.1, 0.5, 1, 5, 15, 60, 300, 1_800];
const MS = 1_000;
/** What of a floor may break. */
const BREAKABLE = ["snapshot", "actors", "commit"] as const;
const MISNAMED = ["nodejs_active_handles_total", "nodejs_active_requests_total", "nodejs_active_resources_total"];

/**
 * This node's metrics for Prometheus. Names begin with `interlock_`, those of the process with `process_` or `nodejs_`.
 */
export class Metrics implements HostMetrics, WorkerMetrics {
  readonly #registry = new Registry();
  #gauges: Gauges | undefined;
  readonly #identity: NodeIdentity;
  readonly #commands;
  readonly #batches;
  readonly #commits;
  readonly #conflicts;
  readonly #lapses;
  readonly #turns;
  readonly #tokens;
  readonly #refusedTurns;
  readonly #broken;
  readonly #repeated;
  readonly #lags;
  readonly #behind;
  readonly #slowReaders;
  #lastFailure: RunFailure | undefined;
  readonly #notQueued;
  readonly #notices;
  readonly #waits;
  readonly #runs;
  readonly #summaries;
  readonly #underWay;

  constructor(identity: NodeIdentity) {
    this.#identity = identity;
    const { node, name, roles, version } = identity;
    const registers = [this.#registry];
    collectDefaultMetrics({ register: this.#registry });
    // Remove gauges that are named like counters; the same names without `_total` have more detail.
    for (const name of MISNAMED) this.#registry.removeSingleMetric(name);
    const gauges = () => this.#gauges!;
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

    new Gauge({
      name: "interlock_node_info",
      help: "1; the labels say which node this is, its name, its roles and its version",
      labelNames: ["node", "name", "roles", "version"],
      registers,
    }).set({ node, name, roles: roles.join(), version }, 1);
    for (const [of, [name, help]] of Object.entries(GAUGES)) {
      gauge(name, help, () => this.#gauges![of as keyof typeof GAUGES]());
    }
    new Gauge({
      name: "interlock_orchestrator_partitions",
      help: "partitions that fall to each orchestrator that is alive, as this one knows them",
      labelNames: ["node"],
      registers,
      collect() {
        this.reset();
        for (const [node, partitions] of gauges().partitionsOf()) this.set({ node }, partitions);
      },
    });
    const waiting = (name: string, help: string, read: (runs: { count: number; oldestMs: number }) => number) =>
      new Gauge({
        name,
        help,
        registers,
        // While the queue does not answer, the last value remains; `interlock_bus_away` shows that.
        async collect() {
          const runs = await gauges()
            .waitingRuns()
            .catch(() => undefined);
          if (runs) this.set(read(runs));
        },
      });
    waiting(
      "interlock_runs_waiting",
      "runs of all nodes that wait for a worker, as orchestrators see them",
      (runs) => runs.count,
    );
    waiting(
      "interlock_runs_waiting_seconds",
      "how long the oldest of these runs has waited, as orchestrators see it",
      (runs) => seconds(runs.oldestMs),
    );
    const ofWebhooks = (
      name: string,
      help: string,
      read: () => Promise<ReadonlyMap<string, number | boolean> | undefined>,
    ) =>
      new Gauge({
        name,
        help,
        labelNames: ["webhook"],
        registers,
        // While the store does not answer, the last values remain.
        async collect() {
          const values = await read().catch(() => undefined);
          if (!values) return;
          this.reset();
          for (const [webhook, value] of values) this.set({ webhook }, Number(value));
        },
      });
    ofWebhooks(
      "interlock_webhook_notices_waiting",
      "notices that wait for a webhook's receiver, as orchestrators see them",
      () => gauges().waitingNotices(),
    );
    ofWebhooks(
      "interlock_webhook_disabled",
      "1 while nothing is sent to a webhook's receiver, because it answered that it is gone, as orchestrators see it",
      () => gauges().disabledWebhooks(),
    );
    gauge("interlock_bus_away", "1 while the bus is known to be away", () => Number(gauges().isBusAway()));
    new Counter({
      name: "interlock_log_lines_dropped_total",
      help: "lines of the log or of stdout that could not be written, because of a full disk or an unread pipe",
      registers,
      collect() {
        this.reset();
        this.inc(gauges().droppedLines());
      },
    });
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
    this.#lapses = counter(
      "interlock_leases_expired_total",
      "sessions that lost their place because their participant sent no heartbeat",
    );
    this.#turns = counter("interlock_turns_total", "turns that began, by agent", "agent");
    this.#tokens = counter(
      "interlock_tokens_total",
      "tokens that providers reported, by the session's agent and by kind: input, output",
      "agent",
      "kind",
    );
    this.#refusedTurns = counter(
      "interlock_turns_refused_total",
      "turns that did not begin because a budget was used up, by whose budget",
      "per",
    );
    for (const per of ["owner", "agent"]) this.#refusedTurns.inc({ per }, 0);
    this.#broken = counter(
      "interlock_floors_broken_total",
      "commands that broke their floor, by the broken part",
      "what",
    );
    // A counter that begins at 1 has not grown for Prometheus: the first break would raise no alert.
    for (const what of BREAKABLE) this.#broken.inc({ what }, 0);
    this.#repeated = counter(
      "interlock_commands_repeated_total",
      "commands sent again because no answer had come for 500 ms",
    );
    this.#lags = histogram("interlock_bus_lag_seconds", "time from a commit until a follower receives it", SHORT);
    this.#behind = counter(
      "interlock_followers_behind_total",
      "times a follower read a commit from the store that the bus had lost, not one that was only late",
    );
    this.#slowReaders = counter(
      "interlock_slow_readers_cut_total",
      "event streams cut because their reader did not drain its socket, fell behind the events in memory, or vanished",
    );
    this.#notQueued = counter(
      "interlock_effects_not_queued_total",
      "times the run queue did not take a run or an alarm, which then waits in the store for the next sweep",
    );
    this.#notices = new Counter({
      name: "interlock_webhook_notices_total",
      help: "notices that webhooks' receivers accepted, attempts that failed, and notices that were dropped",
      labelNames: ["webhook", "outcome"],
      registers,
      // From 0, so that the first one that is dropped raises an alert.
      async collect() {
        const webhooks = await gauges()
          .disabledWebhooks()
          .catch(() => undefined);
        for (const webhook of webhooks?.keys() ?? []) this.inc({ webhook, outcome: "dropped" }, 0);
      },
    });
    this.#waits = histogram("interlock_run_wait_seconds", "how long runs waited for a worker", LONG);
    this.#runs = histogram(
      "interlock_run_seconds",
      "duration of attempts, by agent, outcome and, for a failure, its code",
      LONG,
      "agent",
      "outcome",
      "code",
    );
    this.#summaries = histogram(
      "interlock_summary_seconds",
      "duration of attempts at a summary, by agent, outcome and, for a failure, its code",
      LONG,
      "agent",
      "outcome",
      "code",
    );
    this.#underWay = new Gauge({
      name: "interlock_runs",
      help: "runs of this worker: driven, held, or waiting for a person",
      labelNames: ["state"],
      registers,
    });
    this.runsUnderWay(0, 0, 0);
  }

  /** Read these values at each scrape. Called once, when the parts that they are of are made. */
  watch(gauges: Gauges): void {
    this.#gauges = gauges;
  }

  command(type: string, outcome: string): void {
    this.#commands.inc({ type, outcome });
  }

  batch(commands: number, durationMs: number): void {
    this.#batches.observe(commands);
    this.#commits.observe(seconds(durationMs));
  }

  conflict(): void {
    this.#conflicts.inc();
  }

  lapsed(sessions: number): void {
    this.#lapses.inc(sessions);
  }

  counted({ begun, used }: Parameters<HostMetrics["counted"]>[0]): void {
    for (const { agentId } of begun) this.#turns.inc({ agent: agentId });
    for (const { agentId, usage } of used) {
      this.#tokens.inc({ agent: agentId, kind: "input" }, usage.prompt_tokens);
      this.#tokens.inc({ agent: agentId, kind: "output" }, usage.completion_tokens);
    }
  }

  budgetSpent(per: "owner" | "agent"): void {
    this.#refusedTurns.inc({ per });
  }

  broken(what: (typeof BREAKABLE)[number]): void {
    this.#broken.inc({ what });
  }

  commandRepeated(): void {
    this.#repeated.inc();
  }

  commitReceived(lagMs: number): void {
    this.#lags.observe(seconds(lagMs));
  }

  followerBehind(): void {
    this.#behind.inc();
  }

  slowReaderCut(): void {
    this.#slowReaders.inc();
  }

  notQueued(): void {
    this.#notQueued.inc();
  }

  noticesEnded(webhook: string, outcome: "accepted" | "failed" | "dropped", count: number): void {
    this.#notices.inc({ webhook, outcome }, count);
  }

  runClaimed(waitMs: number): void {
    this.#waits.observe(seconds(waitMs));
  }

  runEnded(purpose: RunPurpose, agent: string, outcome: string, durationMs: number, failure?: RunFailure): void {
    const histogram = purpose === "summary" ? this.#summaries : this.#runs;
    histogram.observe({ agent, outcome, code: failure?.errorCode ?? "" }, seconds(durationMs));
    if (purpose === "turn") this.#lastFailure = failure ?? this.#lastFailure;
  }

  runsUnderWay(driven: number, held: number, waiting: number): void {
    this.#underWay.set({ state: "driven" }, driven);
    this.#underWay.set({ state: "held" }, held);
    this.#underWay.set({ state: "waiting" }, waiting);
  }

  /** @param missing why the node is not ready */
  async report(missing: readonly string[]): Promise<NodeReport> {
    const { connections, floors, ownedPartitions, commands, pendingCommands } = this.#gauges!;
    const { node, name, roles, version, startedAt } = this.#identity;
    const [answered, commits, slowReaders, runs] = await Promise.all([
      this.#commands.get(),
      this.#commits.get(),
      this.#slowReaders.get(),
      this.#underWay.get(),
    ]);
    const inState = (name: string) => runs.values.find(({ labels }) => labels.state === name)?.value ?? 0;
    return {
      node,
      name,
      roles: [...roles],
      version,
      startedAt,
      missing: [...missing],
      partitions: ownedPartitions(),
      connections: connections(),
      floors: floors(),
      commands: sumOf(answered),
      commits: sumOf(commits, "interlock_commit_seconds_count"),
      commandsWaiting: commands(),
      asksWaiting: pendingCommands(),
      runs: { driven: inState("driven"), held: inState("held"), waiting: inState("waiting") },
      ...(this.#lastFailure && { lastFailure: this.#lastFailure }),
      slowReaders: sumOf(slowReaders),
    };
  }

  async read(): Promise<{ contentType: string; text: string }> {
    return { contentType: this.#registry.contentType, text: await this.#registry.metrics() };
  }
}

/** The sum over all labels; of a histogram, that of one of its parts. */
const sumOf = ({ values }: { values: { value: number; metricName?: string }[] }, part?: string): number =>
  values.reduce((sum, { value, metricName }) => (part === undefined || metricName === part ? sum + value : sum), 0);

/** Seconds, at least 0: a difference is negative when a clock went back or when two clocks disagree. */
const seconds = (ms: number): number => Math.max(0, ms) / MS;
