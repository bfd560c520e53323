import { isDeepStrictEqual } from "node:util";
import { must } from "../../../src/policy/arrangement-check.ts";
import type { Decision } from "../../../src/protocol/decision.ts";
import { AppError, type ErrorCode } from "../../../src/protocol/errors.ts";
import type { FloorId } from "../../../src/protocol/ids.ts";
import type { Envelope } from "../../../src/protocol/internal/command.ts";
import type { Reply } from "../../../src/protocol/internal/reply.ts";
import type { Clock } from "../../../src/shared/ports/clock.ts";
import { sleep } from "../../../src/shared/waiting.ts";
import type { Cluster } from "../nodes/cluster.ts";
import type { NodeProcess } from "../nodes/node.ts";
import type { World } from "../world.ts";
import type { PlannedCommand } from "./commands.ts";
import { visit } from "./visit.ts";

/** The result of a request. `cut`: the connection broke, or the client's timeout passed. */
type Outcome = { reply: Reply } | { failed: ErrorCode } | "cut";

/** The limit of requests per command in fair weather; above it the service counts as unavailable. */
const MAX_FAIR_TRIES = 12;

/** The rule by which a restriction rejects, or finds no room in the queue. */
const RESTRICTED = 9;

/** A client with a floor that repeats a request with the same key until it has an answer. */
export class Client {
  readonly #world: World;
  readonly #cluster: Cluster;
  readonly #caller: string;
  readonly floorId: FloorId;
  #count = 0;
  #waiting = 0;
  /** Commands that were never answered: each took effect once or not at all. */
  readonly #unanswered: PlannedCommand[] = [];
  readonly #answered: { planned: PlannedCommand; reply: Reply }[] = [];

  constructor(world: World, cluster: Cluster, floorId: FloorId, caller: string) {
    this.#world = world;
    this.#cluster = cluster;
    this.floorId = floorId;
    this.#caller = caller;
  }

  /** Commands without an answer so far. */
  get waiting(): number {
    return this.#waiting;
  }

  newCommandId(): string {
    return `${this.#caller}${this.#count++}`;
  }

  /** Carry out a command; resolves with its answer, or without one when the client gave up. */
  async see(planned: PlannedCommand, commandId: string): Promise<Reply | undefined> {
    this.#waiting += 1;
    const isLook = planned.command.type === "floor.what_if";
    const reply = await this.#ask(planned, isLook ? undefined : this.#caller, commandId);
    this.#waiting -= 1;
    if (isLook) return reply;
    if (!reply) this.#unanswered.push(planned);
    else this.#answered.push({ planned, reply });
    if (reply && this.#world.chance.percent(15)) void this.#askAgain(planned, commandId, reply);
    return reply;
  }

  /** The invariants of all its commands. */
  check(): void {
    const { watch } = this.#world;
    for (const { mark } of this.#unanswered) {
      if (mark) must(watch.countOf(mark) <= 1, () => `${mark}: done ${watch.countOf(mark)} times`);
    }
    for (const { planned, reply } of this.#answered) this.#mustBeDone(planned, reply);
  }

  async #ask(planned: PlannedCommand, caller: string | undefined, commandId: string): Promise<Reply | undefined> {
    const { chance, clock, trace } = this.#world;
    const { floorId } = this;
    const { command } = planned;
    const envelope = { floorId, commandId, bodyHash: "hash", command, ...(caller !== undefined && { caller }) };
    let fairTries = 0;
    // A repeat may join its original, which started at that time.
    const askedAt = clock.now();
    for (;;) {
      const outcome = await this.#request(envelope);
      const describe = () => `${commandId} ${command.type}: ${JSON.stringify(outcome).slice(0, 200)}`;
      trace.add(this.#caller, describe);
      if (typeof outcome === "object" && "reply" in outcome) {
        const { reply } = outcome;
        if (reply.ok && command.type === "session.answer") this.#world.count("questions answered");
        this.#world.expect(() =>
          caller === undefined ? this.#mustBeTrue(reply, askedAt) : this.#mustBeOnRecord(planned, reply, commandId),
        );
        return reply;
      }
      this.#world.count("answers that were lost");
      const isPassing = outcome === "cut" || outcome.failed === "unavailable" || outcome.failed === "busy";
      if (!isPassing) this.#world.break(`an answer that may not be: ${describe()}`);
      if (this.#world.broken) return undefined;
      if (this.#world.isFair) {
        fairTries += 1;
        if (fairTries > MAX_FAIR_TRIES) this.#world.break(`no answer in fair weather: ${describe()}`);
      } else if (chance.percent(10)) return undefined;
      await sleep(clock as Clock, 50 + chance.below(600));
    }
  }

  /** The same key again at another node: the same answer; with another body: a refusal. */
  async #askAgain(planned: PlannedCommand, commandId: string, reply: Reply): Promise<void> {
    const { chance, clock } = this.#world;
    const { floorId } = this;
    await sleep(clock as Clock, chance.below(3_000));
    const bodyHash = chance.percent(80) ? "hash" : "another";
    const outcome = await this.#request({
      floorId,
      commandId,
      bodyHash,
      caller: this.#caller,
      command: planned.command,
    });
    if (typeof outcome !== "object" || !("reply" in outcome || outcome.failed === "idempotency_mismatch")) return;
    this.#world.expect(() => {
      if (bodyHash !== "hash") {
        const code = "failed" in outcome ? outcome.failed : outcome.reply.ok ? "ok" : outcome.reply.code;
        must(code === "idempotency_mismatch", () => `${commandId} was taken for another: ${JSON.stringify(outcome)}`);
      } else {
        must(
          "reply" in outcome && isSame(outcome.reply, reply),
          () => `${commandId} was answered twice: ${JSON.stringify(reply)} and ${JSON.stringify(outcome)}`,
        );
      }
    });
  }

  /** One request to one gateway. */
  async #request(envelope: Omit<Envelope, "timeoutAt">): Promise<Outcome> {
    const node = this.#cluster.pickGateway();
    if (!node) return "cut";
    const isLost = !this.#world.isFair && this.#world.chance.percent(5);
    const outcome = await visit(this.#world, node, () => askNode(node, envelope));
    return isLost ? "cut" : outcome;
  }

  /** An answer is given after its commit, and is the only one. */
  #mustBeOnRecord(planned: PlannedCommand, reply: Reply, commandId: string): void {
    const { memory } = this.#world;
    const receipt = memory.receiptOf({ caller: this.#caller, commandId });
    must(receipt !== undefined, () => `${commandId} was answered and left no receipt`);
    must(
      isSame(JSON.parse(receipt.reply), reply),
      () => `${commandId} was answered ${JSON.stringify(reply)}, its receipt says ${receipt.reply}`,
    );
    this.#mustBeDone(planned, reply);
  }

  #mustBeDone({ mark, sessionId, command }: PlannedCommand, reply: Reply): void {
    if (mark === undefined) return;
    const { watch } = this.#world;
    const count = watch.countOf(mark);
    const isGone = sessionId !== undefined && watch.endOf(sessionId) === "deleted";
    const least = reply.ok && !isGone ? 1 : 0;
    const most = reply.ok ? 1 : 0;
    const describe = () =>
      `${command.type} was answered ${reply.ok ? "ok" : reply.code} and done ${count} times: ${mark}`;
    must(count >= least && count <= most, describe);
  }

  /** An answer without a receipt was true at some time between request and answer. */
  #mustBeTrue(reply: Reply, askedAt: number): void {
    // A restriction is checked before the other sessions of the floor.
    if (!reply.ok || !reply.decision || reply.decision.rule === RESTRICTED) return;
    const named: Decision["holder"] = reply.decision.holder;
    const holders = this.#world.watch.floor(this.floorId).holdersBetween(askedAt, this.#world.clock.now());
    must(
      holders === undefined || holders.has(named?.sessionId),
      () => `what-if answered that ${named?.sessionId} holds the floor; then it was ${[...holders!]}`,
    );
  }
}

/** One command to one node, as its gateway passes it on. */
export async function askNode(node: NodeProcess, envelope: Omit<Envelope, "timeoutAt">): Promise<Outcome> {
  try {
    return { reply: await node.ask(envelope) };
  } catch (error) {
    return { failed: error instanceof AppError ? error.code : "internal" };
  }
}

/** After a round trip through JSON: absent and undefined are equal. */
const isSame = (one: unknown, other: unknown): boolean =>
  isDeepStrictEqual(JSON.parse(JSON.stringify(one)), JSON.parse(JSON.stringify(other)));
