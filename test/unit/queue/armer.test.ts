import { describe, expect, onTestFinished, test } from "vitest";
import { AppError } from "../../../src/protocol/errors.ts";
import type { AgentId, EffectId, RunId, SessionId } from "../../../src/protocol/ids.ts";
import type { Envelope } from "../../../src/protocol/internal/command.ts";
import type { Effect, RunEffect, TimerEffect } from "../../../src/protocol/internal/effect.ts";
import { floorHash } from "../../../src/protocol/internal/floor-hash.ts";
import { Armer } from "../../../src/queue/armer.ts";
import { MemoryQueue } from "../../../src/queue/memory-queue.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";
import { ControlledStore } from "../../support/stores/controlled-store.ts";
import { DAY, FloorWriter, HOUR, NOON } from "../../support/stores/floor-writer.ts";
import { KeptLog } from "../../support/stores/sqlite-place.ts";
import { openTemporaryStore } from "../../support/stores/temporary-store.ts";

const SWEEP_MS = 10_000;
const PAGE = 1_000;
/** From the clock of a head unit that booted in 1970 to the time from GPS. */
const JUMP_MS = NOON - 60_000;

/** An armer over a real store. Its floor only removes the effects of timers that fire. */
class ArmerStage {
  readonly clock: VirtualClock;
  readonly store: ControlledStore;
  readonly queue: MemoryQueue;
  readonly armer: Armer;
  readonly writer: FloorWriter;
  readonly log = new KeptLog();
  /** Fired timers, in order. */
  readonly fired: string[] = [];
  readonly asked: Envelope[] = [];
  /** Effects that the queue did not take. */
  notQueued = 0;
  /** The results of the next timers; later ones are accepted. */
  readonly failures: Error[] = [];

  private constructor(clock: VirtualClock, store: ControlledStore, floorHashes?: readonly number[]) {
    this.clock = clock;
    this.store = store;
    this.queue = new MemoryQueue(clock);
    this.writer = new FloorWriter(store.store);
    let ids = 0;
    this.armer = new Armer({
      store: store.store,
      queue: this.queue,
      clock,
      newId: () => `id${ids++}`,
      ask: (envelope) => this.#ask(envelope),
      askTimeoutMs: 5_000,
      ...(floorHashes && { floorHashes: () => floorHashes }),
      onNotQueued: () => {
        this.notQueued += 1;
      },
      log: this.log,
    });
    onTestFinished(() => this.armer.stop());
  }

  static async open({ now = NOON, floorHashes }: { now?: number; floorHashes?: number[] } = {}): Promise<ArmerStage> {
    const clock: VirtualClock = new VirtualClock({ now, settle: () => store.idle() });
    const store = new ControlledStore(await openTemporaryStore(clock));
    return new ArmerStage(clock, store, floorHashes);
  }

  timer(id: string, inMs: number): TimerEffect {
    return { kind: "timer", id: id as EffectId, floorId: this.writer.id, dueAt: this.clock.now() + inMs };
  }

  run(id: string, inMs = 0): RunEffect {
    const about = { sessionId: "s" as SessionId, runId: "r" as RunId, agentId: "music" as AgentId, priority: 20 };
    return { ...this.timer(id, inMs), ...about, kind: "run" };
  }

  /** Commit effects, and arm them as a host does. */
  async commit(...effects: Effect[]): Promise<void> {
    expect(await this.writer.write({ effectsAdded: effects })).toBe("committed");
    for (const effect of effects) this.armer.arm(effect);
  }

  /** The due times of the effects in the store, in ms from now. */
  async dueIn(): Promise<number[]> {
    const effects = await this.store.store.dueEffects({ until: Number.MAX_SAFE_INTEGER, limit: PAGE });
    return effects.map(({ dueAt }) => dueAt - this.clock.now());
  }

  async #ask(envelope: Envelope) {
    this.asked.push(envelope);
    const failure = this.failures.shift();
    if (failure) throw failure;
    const { timerId } = envelope.command as { timerId: EffectId };
    this.fired.push(timerId);
    await this.writer.write({ effectsRemoved: [timerId] });
    return { ok: true as const };
  }
}

describe("a timer", () => {
  test("a committed timer fires once when it is due, as a command of the system", async () => {
    const stage = await ArmerStage.open();
    await stage.armer.start();
    await stage.commit({ ...stage.timer("soon", 3_000), sessionId: "s" as SessionId });
    await stage.clock.advance(2_999);
    expect(stage.fired).toEqual([]);
    await stage.clock.advance(1);
    expect(stage.asked).toEqual([
      {
        floorId: "u:ann",
        commandId: expect.any(String),
        bodyHash: "",
        deadline: stage.clock.now() + 5_000,
        command: { type: "timer", timerId: "soon", sessionId: "s" },
      },
    ]);
    await stage.clock.advance(10 * SWEEP_MS);
    expect(stage.fired).toEqual(["soon"]);
  });

  test("a timer that a former node left behind fires when it is due, at once if that time has passed", async () => {
    const stage = await ArmerStage.open();
    const effects = [stage.timer("past", -DAY), stage.timer("soon", 1_000), stage.timer("later", HOUR)];
    await stage.writer.write({ effectsAdded: effects });
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

  test("a timer due far in the future is not armed early: no timer waits for weeks", async () => {
    const stage = await ArmerStage.open();
    await stage.armer.start();
    await stage.clock.advance(0);
    const { timerCount } = stage.clock;
    await stage.commit(stage.timer("in weeks", 20 * DAY));
    expect(stage.clock.timerCount).toBe(timerCount);
  });

  test("a timer armed twice, by its commit and by a sweep, fires once", async () => {
    const stage = await ArmerStage.open();
    await stage.armer.start();
    await stage.commit(stage.timer("soon", SWEEP_MS + 5_000));
    stage.armer.sweep();
    await stage.clock.advance(3 * SWEEP_MS);
    expect(stage.fired).toEqual(["soon"]);
  });

  test("a timer whose floor is unavailable fires again after the next sweep", async () => {
    const stage = await ArmerStage.open();
    await stage.armer.start();
    stage.failures.push(new AppError("unavailable"));
    await stage.commit(stage.timer("soon", 0));
    await stage.clock.advance(0);
    expect([stage.fired, stage.log.lines]).toEqual([[], ["a timer could not be fired; the next sweep retries"]]);
    await stage.clock.advance(SWEEP_MS);
    expect(stage.fired).toEqual(["soon"]);
  });

  test("a timer that the queue has no room for is armed by the next sweep", async () => {
    const stage = await ArmerStage.open();
    await stage.armer.start();
    const { add } = stage.queue;
    stage.queue.add = () => Promise.reject(new AppError("unavailable"));
    await stage.commit(stage.timer("soon", 1_000));
    await stage.clock.advance(0);
    expect(stage.notQueued).toBe(1);
    await stage.clock.advance(SWEEP_MS);
    expect(stage.notQueued).toBe(2);
    stage.queue.add = add;
    await stage.clock.advance(SWEEP_MS - 1);
    expect(stage.fired).toEqual([]);
    await stage.clock.advance(1);
    expect([stage.fired, stage.notQueued]).toEqual([["soon"], 2]);
  });
});

describe("a sweep", () => {
  test("a sweep reads all waiting effects, in pages", async () => {
    const stage = await ArmerStage.open();
    const effects = Array.from({ length: 2 * PAGE + 1 }, (_, n) => stage.timer(`t${n}`, -1_000));
    await stage.writer.write({ effectsAdded: effects });
    const added: string[] = [];
    stage.queue.add = async ({ id }) => void added.push(id);
    await stage.armer.start();
    await stage.clock.advance(0);
    expect(added.sort()).toEqual(effects.map(({ id }) => id as string).sort());
  });

  test("a sweep hands runs to the queue, where a worker takes them", async () => {
    const stage = await ArmerStage.open();
    await stage.writer.write({ effectsAdded: [stage.run("run")] });
    await stage.armer.start();
    await stage.clock.advance(SWEEP_MS);
    const taken: string[] = [];
    await stage.queue.process("run", async ({ id }) => void taken.push(id), { concurrency: 1 });
    await stage.clock.advance(0);
    expect([taken, stage.asked]).toEqual([["run"], []]);
  });

  test("while the store or the floor is away, the log has one line a minute about sweeps, and one about timers", async () => {
    const stage = await ArmerStage.open();
    await stage.armer.start();
    stage.failures.push(...Array.from({ length: 7 * 20 }, () => new AppError("unavailable")));
    await stage.commit(...Array.from({ length: 20 }, (_, index) => stage.timer(`t${index}`, 0)));
    await stage.clock.advance(5 * SWEEP_MS);
    const [firing, sweeping] = ["a timer could not be fired", "effects could not be armed"].map(
      (what) => `${what}; the next sweep retries`,
    );
    expect(stage.log.lines).toEqual([firing]);
    stage.store.away.add("dueEffects");
    await stage.clock.advance(6 * SWEEP_MS);
    expect(stage.log.lines).toEqual([firing, sweeping]);
    await stage.clock.advance(SWEEP_MS);
    expect(stage.log.lines).toEqual([firing, sweeping, sweeping]);
  });

  test("a sweep that fails is followed by another", async () => {
    const stage = await ArmerStage.open();
    await stage.writer.write({ effectsAdded: [stage.timer("soon", 0)] });
    stage.store.away.add("dueEffects");
    await stage.armer.start();
    await stage.clock.advance(0);
    expect(stage.log.lines).toEqual(["effects could not be armed; the next sweep retries"]);
    expect(stage.notQueued).toBe(0);
    stage.store.away.clear();
    await stage.clock.advance(SWEEP_MS);
    expect(stage.fired).toEqual(["soon"]);
  });

  test("a sweep requested while another reads starts when that one has ended", async () => {
    const stage = await ArmerStage.open();
    const gate = Promise.withResolvers<void>();
    stage.store.waiting.set("dueEffects", gate.promise);
    await stage.armer.start();
    stage.armer.sweep();
    expect(stage.store.callsOf("dueEffects")).toBe(1);
    gate.resolve();
    await stage.clock.advance(0);
    expect(stage.store.callsOf("dueEffects")).toBe(2);
    await stage.clock.advance(SWEEP_MS);
    expect(stage.store.callsOf("dueEffects")).toBe(3);
  });

  test("a sweep reads only the effects of this node's floors", async () => {
    const mine = floorHash("u:ann" as never);
    const other = await ArmerStage.open({ floorHashes: [mine + 1] });
    await other.writer.write({ effectsAdded: [other.timer("soon", 0)] });
    await other.armer.start();
    await other.clock.advance(SWEEP_MS);
    expect(other.fired).toEqual([]);
    const owner = await ArmerStage.open({ floorHashes: [mine] });
    await owner.writer.write({ effectsAdded: [owner.timer("soon", 0)] });
    await owner.armer.start();
    await owner.clock.advance(0);
    expect(owner.fired).toEqual(["soon"]);
  });

  test("no sweep follows once the armer stops", async () => {
    const stage = await ArmerStage.open();
    await stage.armer.start();
    await stage.clock.advance(0);
    await stage.armer.stop();
    expect(stage.clock.timerCount).toBe(0);
    await stage.commit(stage.timer("soon", 0));
    stage.armer.sweep();
    await stage.clock.advance(3 * SWEEP_MS);
    expect([stage.fired, stage.clock.timerCount]).toEqual([[], 0]);
  });
});

describe("a jump of the wall clock", () => {
  /** The clock jumps from 1970: one timer is armed before the jump, one is not. */
  async function boot(): Promise<ArmerStage> {
    const stage = await ArmerStage.open({ now: NOON - JUMP_MS });
    await stage.armer.start();
    await stage.commit(stage.timer("armed", 15_000), stage.timer("later", HOUR));
    await stage.clock.advance(5_000);
    return stage;
  }

  function jump(stage: ArmerStage, byMs = JUMP_MS): void {
    stage.clock.jump(byMs);
    stage.armer.shift(byMs);
  }

  /** The first timer fires after one ms; the other one after its whole delay. */
  async function expectBothOnTime(stage: ArmerStage): Promise<void> {
    await stage.clock.advance(1);
    expect(stage.fired).toEqual(["armed"]);
    await stage.clock.advance(HOUR - 15_000 - 1);
    expect(stage.fired).toEqual(["armed"]);
    await stage.clock.advance(1);
    expect(stage.fired).toEqual(["armed", "later"]);
  }

  /** Both timers fire after their whole delays. */
  async function expectNoneEarly(stage: ArmerStage): Promise<void> {
    await stage.clock.advance(10_000 - 1);
    expect(stage.fired).toEqual([]);
    await expectBothOnTime(stage);
  }

  test("a jump of the wall clock leaves the remaining wait of an effect unchanged", async () => {
    const stage = await boot();
    jump(stage);
    await stage.clock.advance(0);
    expect(await stage.dueIn()).toEqual([10_000, HOUR - 5_000]);
    await expectNoneEarly(stage);
  });

  test("a jump of the wall clock does not fire an effect before the store has moved its due time", async () => {
    const stage = await boot();
    stage.store.hold();
    jump(stage);
    stage.armer.sweep();
    // The next regular sweep happens in this time.
    await stage.clock.advance(SWEEP_MS - 1);
    stage.armer.sweep();
    expect(stage.fired).toEqual([]);
    stage.store.release();
    await expectBothOnTime(stage);
  });

  test("a jump of the wall clock moves effects of commits in progress, but not those of later commits", async () => {
    const stage = await boot();
    stage.store.hold();
    const before = stage.commit(stage.timer("before", 2_000));
    jump(stage);
    const after = stage.timer("after", 3_000);
    stage.store.release();
    await before;
    await stage.commit(after);
    await stage.clock.advance(1_999);
    expect(stage.fired).toEqual([]);
    await stage.clock.advance(1);
    expect(stage.fired).toEqual(["before"]);
    await stage.clock.advance(1_000);
    expect(stage.fired).toEqual(["before", "after"]);
  });

  test("two jumps of the wall clock move an effect by their sum", async () => {
    const stage = await boot();
    stage.store.hold();
    jump(stage, HOUR);
    jump(stage, JUMP_MS);
    stage.store.release();
    await stage.clock.advance(0);
    expect(await stage.dueIn()).toEqual([10_000, HOUR - 5_000]);
    await expectNoneEarly(stage);
  });

  test("a second jump of the wall clock is waited for although the first has been moved", async () => {
    const stage = await boot();
    jump(stage, HOUR);
    stage.store.away.add("shiftEffects");
    jump(stage, JUMP_MS);
    await stage.clock.advance(9_000);
    expect(stage.fired).toEqual([]);
    stage.store.away.clear();
    await stage.clock.advance(1_000);
    expect(stage.fired).toEqual(["armed"]);
    expect(await stage.dueIn()).toEqual([HOUR - 15_000]);
  });

  test("effects are moved as soon as the store is available, and nothing is armed by old due times before that", async () => {
    const stage = await boot();
    stage.store.away.add("shiftEffects");
    jump(stage);
    await stage.clock.advance(5_000);
    expect(stage.log.lines).toEqual(["due times could not be shifted after a clock jump; retrying"]);
    stage.store.away.clear();
    await stage.clock.advance(1_000);
    expect(await stage.dueIn()).toEqual([4_000, HOUR - 11_000]);
    await stage.clock.advance(4_000 - 1);
    expect(stage.fired).toEqual([]);
    await stage.clock.advance(1);
    expect(stage.fired).toEqual(["armed"]);
  });

  test("a jump of the wall clock is not handled after the armer has stopped", async () => {
    const stage = await boot();
    stage.store.away.add("shiftEffects");
    jump(stage);
    await stage.clock.advance(0);
    await stage.armer.stop();
    await stage.clock.advance(60_000);
    expect(stage.log.lines).toHaveLength(1);
  });
});
