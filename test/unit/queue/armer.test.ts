import { expect, onTestFinished, test } from "vitest";
import { AppError } from "../../../src/protocol/errors.ts";
import type { AgentId, FloorId, RunId, RunRequestId, SessionId } from "../../../src/protocol/ids.ts";
import type { Envelope } from "../../../src/protocol/internal/command.ts";
import { floorHash } from "../../../src/protocol/internal/hash.ts";
import { alarmOf } from "../../../src/protocol/internal/run-request.ts";
import { Armer } from "../../../src/queue/armer.ts";
import { MemoryQueue } from "../../../src/queue/memory-queue.ts";
import type { Store } from "../../../src/store/store.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";
import { ControlledStore } from "../../support/stores/controlled-store.ts";
import { DAY, FloorWriter, HOUR } from "../../support/stores/floor-writer.ts";
import { MemoryStore } from "../../support/stores/memory-store.ts";
import { KeptLog } from "../../support/stores/sqlite-place.ts";

const SWEEP_MS = 10_000;
const PAGE = 1_000;

/** An armer over a store in memory. Its floors' alarms go off when they come. */
class ArmerStage {
  readonly memory = new MemoryStore();
  readonly store = new ControlledStore(this.memory);
  readonly clock: VirtualClock = new VirtualClock({ settle: () => this.store.idle() });
  readonly queue = new MemoryQueue(this.clock);
  readonly armer: Armer;
  readonly log = new KeptLog();
  /** The floors whose alarms came, in order. */
  readonly fired: string[] = [];
  readonly asked: Envelope[] = [];
  /** Run requests and alarms that the queue did not take. */
  notQueued = 0;
  /** Commands of clients that wait. */
  waiting = 0;
  /** The results of the next alarms; later ones are accepted. */
  readonly failures: Error[] = [];
  readonly #writers = new Map<string, FloorWriter>();

  constructor(floorHashes?: readonly number[]) {
    const { store, clock, queue, log } = this;
    let ids = 0;
    this.armer = new Armer({
      store: store.store,
      queue,
      clock,
      wallNow: () => clock.now() + DAY,
      unansweredCount: () => this.waiting,
      newId: () => `id${ids++}`,
      send: (envelope) => this.#ask(envelope),
      sendTimeoutMs: 5_000,
      ...(floorHashes && { floorHashes: () => floorHashes }),
      onNotQueued: () => {
        this.notQueued += 1;
      },
      log,
    });
    onTestFinished(() => this.armer.stop());
  }

  static async started(): Promise<ArmerStage> {
    const stage = new ArmerStage();
    await stage.armer.start();
    return stage;
  }

  /** Set a floor's alarm, without arming it. */
  async set(floorId: string, inMs: number): Promise<number> {
    const alarm = this.clock.now() + inMs;
    expect(await this.#writer(floorId).write({ alarm })).toBe("committed");
    return alarm;
  }

  /** Set a floor's alarm, and arm it as a host does. */
  async commit(floorId: string, inMs: number): Promise<void> {
    this.armer.arm(alarmOf(floorId as FloorId, await this.set(floorId, inMs)));
  }

  async wantRun(id: string): Promise<void> {
    const about = { sessionId: "s" as SessionId, runId: "r" as RunId, agentId: "music" as AgentId, priority: 20 };
    const runRequest = {
      kind: "run" as const,
      id: id as RunRequestId,
      floorId: "u:ann" as FloorId,
      dueAt: this.clock.now(),
    };
    await this.#writer("u:ann").write({ runRequestsAdded: [{ ...runRequest, ...about }] });
  }

  #writer(floorId: string): FloorWriter {
    const writer = this.#writers.get(floorId) ?? new FloorWriter(this.store.store, floorId);
    this.#writers.set(floorId, writer);
    return writer;
  }

  async #ask(envelope: Envelope) {
    this.asked.push(envelope);
    const failure = this.failures.shift();
    if (failure) throw failure;
    this.fired.push(envelope.floorId);
    await this.#writer(envelope.floorId).write({});
    return { ok: true as const };
  }
}

test("a committed alarm comes once, when it is due, as a command of the system", async () => {
  const stage = await ArmerStage.started();
  await stage.commit("u:ann", 3_000);
  await stage.clock.advance(2_999);
  expect(stage.fired).toEqual([]);
  await stage.clock.advance(1);
  const about = { floorId: "u:ann", commandId: expect.any(String), bodyHash: "" };
  const timeoutAt = stage.clock.now() + DAY + 5_000;
  expect(stage.asked).toEqual([{ ...about, timeoutAt, command: { type: "alarm" } }]);
  await stage.clock.advance(10 * SWEEP_MS);
  expect(stage.fired).toEqual(["u:ann"]);
});

test("an alarm that a former node left behind comes when it is due, at once if that time has passed", async () => {
  const stage = new ArmerStage();
  for (const [name, inMs] of Object.entries({ past: -DAY, soon: 1_000, later: HOUR })) await stage.set(name, inMs);
  await stage.armer.start();
  await stage.clock.advance(0);
  expect(stage.fired).toEqual(["past"]);
  await stage.clock.advance(1_000);
  expect(stage.fired).toEqual(["past", "soon"]);
  await stage.clock.advance(HOUR - 1_001);
  expect(stage.fired).toEqual(["past", "soon"]);
  await stage.clock.advance(1);
  expect(stage.fired).toEqual(["past", "soon", "later"]);
});

test("an alarm far in the future is not armed early: no timer waits for weeks", async () => {
  const stage = await ArmerStage.started();
  await stage.clock.advance(0);
  const { timerCount } = stage.clock;
  await stage.commit("u:ann", 20 * DAY);
  expect(stage.clock.timerCount).toBe(timerCount);
});

test("an alarm armed twice, by its commit and by a sweep, comes once", async () => {
  const stage = await ArmerStage.started();
  await stage.commit("u:ann", SWEEP_MS + 5_000);
  stage.armer.sweep();
  await stage.clock.advance(3 * SWEEP_MS);
  expect(stage.fired).toEqual(["u:ann"]);
});

test("an alarm whose floor is unavailable comes again after the next sweep", async () => {
  const stage = await ArmerStage.started();
  stage.failures.push(new AppError("unavailable"));
  await stage.commit("u:ann", 0);
  await stage.clock.advance(0);
  expect([stage.fired, stage.log.lines]).toEqual([[], ["an alarm could not be carried out; the next sweep retries"]]);
  await stage.clock.advance(SWEEP_MS);
  expect(stage.fired).toEqual(["u:ann"]);
});

test("an alarm that the queue has no room for is armed by the next sweep", async () => {
  const stage = await ArmerStage.started();
  const { add } = stage.queue;
  stage.queue.add = () => Promise.reject(new AppError("unavailable"));
  await stage.commit("u:ann", 1_000);
  await stage.clock.advance(0);
  expect(stage.notQueued).toBe(1);
  await stage.clock.advance(SWEEP_MS);
  expect(stage.notQueued).toBe(2);
  stage.queue.add = add;
  await stage.clock.advance(SWEEP_MS - 1);
  expect(stage.fired).toEqual([]);
  await stage.clock.advance(1);
  expect([stage.fired, stage.notQueued]).toEqual([["u:ann"], 2]);
});

test("a crowd of late alarms lets the commands of clients go first, for a second at most; a punctual one does not", async () => {
  const stage = new ArmerStage();
  stage.waiting = 1;
  for (const name of ["u:ann", "u:bob"]) await stage.set(name, -HOUR);
  await stage.armer.start();
  await stage.clock.advance(500);
  await stage.commit("u:eve", 10);
  await stage.clock.advance(10);
  expect(stage.fired).toEqual(["u:eve"]);
  stage.waiting = 0;
  await stage.clock.advance(20);
  expect(stage.fired).toEqual(["u:eve", "u:ann", "u:bob"]);
  stage.waiting = 1;
  await stage.commit("u:fay", -HOUR);
  await stage.clock.advance(990);
  expect(stage.fired).toHaveLength(3);
  await stage.clock.advance(20);
  expect(stage.fired).toHaveLength(4);
});

test("a node asks at most sixteen floors at once to carry out what is due, and hands runs to the queue before", async () => {
  const stage = new ArmerStage();
  const names = Array.from({ length: 40 }, (_, n) => `u:user${n}`);
  for (const name of names) await stage.set(name, -500);
  await stage.wantRun("run");
  const { add } = stage.queue;
  const added: string[] = [];
  stage.queue.add = (queued) => {
    added.push(queued.kind);
    return add.call(stage.queue, queued);
  };
  stage.store.hold();
  await stage.armer.start();
  await stage.clock.advance(0);
  expect([added[0], added.length, stage.fired.length]).toEqual(["run", 41, 16]);
  stage.store.release();
  await stage.clock.advance(0);
  expect(stage.fired).toHaveLength(40);
});

test("a sweep reads all alarms, in pages", async () => {
  const stage = new ArmerStage();
  const names = Array.from({ length: 2 * PAGE + 1 }, (_, n) => `u:user${n}`);
  await Promise.all(names.map((name) => stage.set(name, -1_000)));
  const added: string[] = [];
  stage.queue.add = async ({ floorId }) => void added.push(floorId);
  await stage.armer.start();
  await stage.clock.advance(0);
  expect(added.sort()).toEqual(names.sort());
});

test("a sweep hands runs to the queue, where a worker takes them", async () => {
  const stage = new ArmerStage();
  await stage.wantRun("run");
  await stage.armer.start();
  await stage.clock.advance(SWEEP_MS);
  const taken: string[] = [];
  await stage.queue.process("run", async ({ id }) => void taken.push(id), { concurrency: 1 });
  await stage.clock.advance(0);
  expect([taken, stage.asked]).toEqual([["run"], []]);
});

test("while the store or the floor is away, the log has one line a minute about sweeps, and one about alarms", async () => {
  const stage = await ArmerStage.started();
  stage.failures.push(...Array.from({ length: 7 * 20 }, () => new AppError("unavailable")));
  for (let index = 0; index < 20; index += 1) await stage.commit(`u:user${index}`, 0);
  await stage.clock.advance(5 * SWEEP_MS);
  const [firing, sweeping] = ["an alarm could not be carried out", "run requests and alarms could not be armed"].map(
    (what) => `${what}; the next sweep retries`,
  );
  expect(stage.log.lines).toEqual([firing]);
  stage.store.away.add("dueRunRequests");
  await stage.clock.advance(6 * SWEEP_MS);
  expect(stage.log.lines).toEqual([firing, sweeping]);
  await stage.clock.advance(SWEEP_MS);
  expect(stage.log.lines).toEqual([firing, sweeping, sweeping]);
  // A sweep that fails is followed by another.
  stage.store.away.clear();
  stage.failures.length = 0;
  await stage.clock.advance(SWEEP_MS);
  expect([stage.fired.length, stage.notQueued]).toEqual([20, 0]);
});

test("a sweep requested while another reads starts when that one has ended", async () => {
  const stage = new ArmerStage();
  const gate = Promise.withResolvers<void>();
  stage.store.waiting.set("dueRunRequests", gate.promise);
  await stage.armer.start();
  stage.armer.sweep();
  expect(stage.store.callsOf("dueRunRequests")).toBe(1);
  gate.resolve();
  await stage.clock.advance(0);
  expect(stage.store.callsOf("dueRunRequests")).toBe(2);
  await stage.clock.advance(SWEEP_MS);
  expect(stage.store.callsOf("dueRunRequests")).toBe(3);
});

test.each([
  ["what belongs to this node's floors", 0, ["u:ann"]],
  ["nothing of other nodes' floors", 1, []],
])("a sweep reads %s", async (_, apart, fired) => {
  const stage = new ArmerStage([floorHash("u:ann" as never) + apart]);
  await stage.set("u:ann", 0);
  await stage.armer.start();
  await stage.clock.advance(SWEEP_MS);
  expect(stage.fired).toEqual(fired);
});

test("no sweep follows once the armer stops", async () => {
  const stage = await ArmerStage.started();
  await stage.clock.advance(0);
  await stage.armer.stop();
  expect(stage.clock.timerCount).toBe(0);
  await stage.commit("u:ann", 0);
  stage.armer.sweep();
  await stage.clock.advance(3 * SWEEP_MS);
  expect([stage.fired, stage.clock.timerCount]).toEqual([[], 0]);
});

test.each([1, 3])(
  "%d new catalogues at once give every floor in use that this node serves one event",
  async (count) => {
    const pages: Record<string, string[]> = { held: ["u:a", "u:b", "u:other"], waiting: ["u:c"], idle: ["u:idle"] };
    const { memory, armer, clock, asked } = new ArmerStage();
    // One floor per page.
    const listFloors: Store["listFloors"] = async ({ state = "idle", after }) => {
      const left = pages[state]!.filter((id) => after === undefined || id > after);
      return { floors: left.slice(0, 1).map((floorId) => ({ floorId }) as never), hasMore: left.length > 1 };
    };
    Object.assign(memory, { listFloors });
    for (let each = 0; each < count; each++) armer.visit((floorId) => floorId !== "u:other");
    await clock.advance(0);
    await armer.stop();
    const events = asked.map(({ floorId, command }) => `${floorId} ${command.type}`);
    expect(events).toEqual(["u:a alarm", "u:b alarm", "u:c alarm"]);
  },
);
