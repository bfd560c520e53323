import { fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test, vi } from "vitest";
import type { FloorId, FloorSeq } from "../../../src/protocol/ids.ts";
import type { Envelope } from "../../../src/protocol/internal/command.ts";
import type { RunRequest } from "../../../src/protocol/internal/run-request.ts";
import { alarmOf } from "../../../src/protocol/internal/run-request.ts";
import { Armer } from "../../../src/queue/armer.ts";
import { openBullmqQueue } from "../../../src/queue/bullmq-queue.ts";
import { MemoryQueue } from "../../../src/queue/memory-queue.ts";
import type { RunQueue } from "../../../src/queue/run-queue.ts";
import type { Clock } from "../../../src/shared/ports/clock.ts";
import { SystemClock } from "../../../src/system/system-clock.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { HostStage } from "../../support/floors/host-stage.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { turn } from "../../support/runner/virtual-clock.ts";
import { connectTo, placeOf, RedisPlace } from "../../support/servers/redis-place.ts";
import { REDIS_PROCESS, type RedisProcess } from "../../support/servers/redis-server.ts";
import { perTest } from "../../support/servers/shared-server.ts";
import { KeptLog } from "../../support/stores/sqlite-place.ts";
import { carryOut, runOf } from "./queue-contract.ts";

// Long enough for locks to expire and servers to come back.

/** More than a series of faults that could be chance. */
const RECONNECTIONS = 8;
const CHILD = fileURLToPath(new URL("../../support/servers/queue-child.ts", import.meta.url));

describeWith([REDIS_PROCESS], "the run queue over BullMQ", (startRedis) => {
  const startOne = perTest(startRedis);

  /** A server, the store's nodes on it, and the queue of one of them. */
  async function startQueue() {
    const server = await startOne();
    const nodes = placeOf(server.url);
    return { server, nodes, queue: await nodes.open() };
  }

  /** Adds it repeatedly, as sweeps do, until it is taken. */
  async function untilAdded(queue: RunQueue, entry: RunRequest): Promise<void> {
    for (let isTaken = false; !isTaken; await turn()) {
      isTaken = await queue.add(entry).then(
        () => true,
        () => false,
      );
    }
  }

  const unavailable = { name: "AppError", code: "unavailable" };

  /** Plays the same commands at the same times, with alarms from this queue. Returns the floor's log. */
  async function playFloor(
    open: (clock: Clock) => Promise<RunQueue>,
    server: RedisProcess | undefined,
    length = 0,
  ): Promise<string[]> {
    const stage = await HostStage.open();
    const { clock, host, log } = stage;
    const store = stage.store.store;
    stage.catalog = makeCatalog(
      [
        { name: "music", priority: 20, when_blocked: "queue" },
        { name: "call", priority: 90, max_hold: "12s" },
        { name: "note", priority: 10, when_blocked: "queue", queue_timeout: "9s" },
        { name: "prompt", priority: 50, max_pause: "0ms" },
      ],
      { policy: { resume_delay: "2s" } },
    );
    const system = new SystemClock();
    // Its time is the floor's, and it notices that Redis is away in real time.
    const queue = await open({ now: () => clock.now(), after: (ms, callback) => system.after(ms, callback) });
    const ask = (envelope: Envelope) => host.dispatch(envelope);
    const rest = {
      wallNow: () => clock.now(),
      unansweredCount: () => 0,
      newId: () => randomUUID(),
      sendTimeoutMs: 5_000,
    };
    const armer = new Armer({ ...rest, store, queue, clock, send: ask, log });
    onTestFinished(() => armer.stop());
    await armer.start();
    stage.onArm = (queued) => armer.arm(queued);
    await stage.create("music", "music");
    await stage.create("call", "call");
    await stage.create("note", "note");
    await clock.advance(4_000);
    await server?.kill();
    // The note waits for too long, and the call is over, while nobody asks; then the music would come back.
    await clock.advance(10_000);
    await stage.create("prompt", "prompt");
    await clock.advance(3_000);
    await stage.create("second", "call");
    await stage.on("music", "resume");
    await clock.advance(47_000);
    await server?.restart();
    const readLog = async () => {
      armer.sweep();
      await clock.advance(0);
      const { entries } = await store.readFloorLog("u:ann" as FloorId, 0 as FloorSeq, 1_000);
      return entries.map(({ at, sessionId, type, json }) => `${at} ${sessionId} ${type} ${json}`);
    };
    // The last deadlines are carried out by alarms alone.
    await expect.poll(async () => (await readLog()).length).toBeGreaterThanOrEqual(length);
    return readLog();
  }

  test("the same commands give the same log over a Redis that is stopped for a minute, and comes back empty", async () => {
    const punctual = await playFloor(async (clock) => new MemoryQueue(clock), undefined);
    for (const reason of ["queue_timeout", "max_hold", "max_pause", "resumed"])
      expect(punctual.join()).toContain(reason);
    const server = await startOne();
    const nodes = placeOf(server.url);
    expect(await playFloor((clock) => nodes.open(clock), server, punctual.length)).toEqual(punctual);
  });

  test("a run whose worker was killed is restarted on another node", async () => {
    const { server, nodes, queue } = await startQueue();
    const child = fork(CHILD, [server.url, nodes.epoch]);
    onTestFinished(() => void child.kill("SIGKILL"));
    const run = runOf(nodes.clock);
    await queue.add(run);
    expect(await once(child, "message")).toEqual([run.id, undefined]);
    const work = await carryOut(queue);
    child.kill("SIGKILL");
    await work.until(1, run.id);
  });

  test("a queue is unavailable while Redis is frozen: it adds nothing, and continues by itself afterwards", async () => {
    const { server, nodes, queue } = await startQueue();
    const work = await carryOut(queue);
    const [before, during, after] = [runOf(nodes.clock), runOf(nodes.clock), runOf(nodes.clock)];
    await queue.add(before);
    await work.until(1, before.id);
    server.freeze();
    await expect(queue.add(during)).rejects.toMatchObject(unavailable);
    server.thaw();
    await untilAdded(queue, after);
    await work.until(1, after.id);
    await untilAdded(queue, during);
    await work.until(1, during.id);
  });

  test("entries are added again to a Redis that was emptied, waiting ones and running ones", async () => {
    const { server, nodes, queue } = await startQueue();
    const work = await carryOut(queue, { atOnce: false, concurrency: 1 });
    const [underWay, waiting] = [runOf(nodes.clock), runOf(nodes.clock)];
    for (const run of [underWay, waiting]) await queue.add(run);
    await work.until(1, underWay.id);
    await server.kill();
    await expect(queue.add(waiting)).rejects.toMatchObject(unavailable);
    await server.restart();
    for (const run of [underWay, waiting]) await untilAdded(queue, run);
    work.finish(underWay);
    await work.until(2, underWay.id);
    work.finish(underWay);
    await work.until(1, waiting.id);
    work.finish(waiting);
  });

  test("entries whose lists Redis lost are added again, and ones that run are not started twice", async () => {
    const { server, nodes, queue } = await startQueue();
    const late = { dueAt: nodes.clock.now() - 10_000 };
    const [underWay, waiting] = [runOf(nodes.clock, late), runOf(nodes.clock, late)];
    const work = await carryOut(queue, { atOnce: false, concurrency: 1 });
    await queue.add(underWay);
    await work.until(1, underWay.id);
    await queue.add(waiting);
    const redis = connectTo(server.url);
    const lost = await redis.del(...["prioritized", "active"].map((list) => `${nodes.epoch}:runs:${list}`));
    expect(lost).toBe(2);
    for (const run of [underWay, waiting]) await queue.add(run);
    work.finish(underWay);
    await work.until(1, waiting.id);
    expect(work.begun).toEqual([underWay, waiting]);
    work.finish(waiting);
  });

  test("a queue takes work although its connections broke during the start", async () => {
    const server = await startOne();
    const admin = connectTo(server.url);
    for (let round = 0; round < 10; round++) {
      const nodes = placeOf(server.url);
      const queue = await nodes.open();
      const taking = carryOut(queue);
      for (let turns = 0; turns < round; turns++) await turn();
      await admin.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
      const work = await taking;
      const run = runOf(nodes.clock);
      await untilAdded(queue, run);
      await work.until(1, run.id);
    }
  });

  test("a queue uses the store's time when a node's own clock is ahead: no run starts early", async () => {
    const server = await startOne();
    const nodes = placeOf(server.url);
    const { clock } = nodes;
    const behind: Clock = {
      now: () => clock.now() - 300,
      after: (delayMs, callback) => clock.after(delayMs, callback),
    };
    const early: boolean[] = [];
    const done = Promise.withResolvers<void>();
    await (await nodes.open(behind)).process(
      "alarm",
      async ({ dueAt }) => {
        early.push(behind.now() < dueAt);
        if (early.length === 3) done.resolve();
      },
      { concurrency: 3 },
    );
    const queue = await nodes.open();
    for (const delayMs of [0, 10, 400]) {
      await queue.add(alarmOf(`u:${delayMs}` as FloorId, clock.now() + delayMs));
    }
    await done.promise;
    expect(early).toEqual([false, false, false]);
  });

  test("a queue uses the store's time when the clock of the node that adds is an hour ahead: nothing is late beyond a sweep", async () => {
    const server = await startOne();
    const nodes = placeOf(server.url);
    const { clock } = nodes;
    const [adding, working] = [await nodes.open(), await nodes.open()];
    const fired: string[] = [];
    await working.process("alarm", async ({ id }) => void fired.push(id), { concurrency: 3 });
    const work = await carryOut(working);
    const dueAt = clock.now() + 1_000;
    const alarm = alarmOf("u:ann" as FloorId, dueAt);
    const run = runOf(clock, { dueAt });
    const real = Date.now;
    const ahead = vi.spyOn(Date, "now").mockImplementation(() => real() + 3_600_000);
    await adding.add(alarm);
    await adding.add(run);
    ahead.mockRestore();
    /** As sweeps do, which another node may make too. */
    const sweep = async () => {
      for (const entry of [alarm, run]) await working.add(entry);
    };
    await sweep();
    expect([fired, work.begun]).toEqual([[], []]);
    while (clock.now() < dueAt + 1_000) await turn();
    await sweep();
    await work.until(1, run.id);
    await expect.poll(() => fired.length).toBe(1);
  });

  test("a run leaves no keys in Redis, whether it succeeded, failed or was no longer needed", async () => {
    const { server, nodes, queue } = await startQueue();
    const ended: string[] = [];
    const done = Promise.withResolvers<void>();
    await queue.process(
      "run",
      async ({ id }) => {
        ended.push(id);
        if (ended.length === 9) done.resolve();
        if (ended.length % 3 === 0) throw new Error("it broke");
      },
      { concurrency: 1 },
    );
    for (let index = 0; index < 9; index++) await queue.add(runOf(nodes.clock, { priority: 10 * index }));
    await done.promise;
    const admin = connectTo(server.url);
    let keys: string[];
    do keys = await admin.keys("*");
    while (keys.some((key) => key.includes("stamp.run")));
    expect(keys.length).toBeGreaterThan(0);
    for (const key of keys) expect(key).toMatch(new RegExp(`^${nodes.epoch}:(runs|alarms):`));
  });

  test("stores that share one Redis are separate", async () => {
    const server = await startOne();
    const [mine, theirs] = [placeOf(server.url), placeOf(server.url)];
    const [queue, other] = [await mine.open(), await theirs.open()];
    const strangers = await carryOut(other);
    const run = runOf(mine.clock);
    await queue.add(run);
    const foreign = runOf(theirs.clock);
    await other.add(foreign);
    await strangers.until(1, foreign.id);
    const work = await carryOut(queue);
    await work.until(1, run.id);
    expect([strangers.begun, work.begun]).toEqual([[foreign], [run]]);
  });

  test("a stopping node starts no run: another node gets the runs in transit", async () => {
    const server = await startOne();
    const nodes = placeOf(server.url);
    const [stopping, staying] = [await nodes.open(), await nodes.open()];
    for (let round = 0; round < 10; round++) {
      const runs = Array.from({ length: 20 }, () => runOf(nodes.clock));
      for (const run of runs) await stopping.add(run);
      const leaving = await carryOut(stopping, { concurrency: 1 });
      await leaving.until(1, runs[0]!.id);
      // At a different moment of fetching each time.
      for (let turns = 0; turns < round; turns++) await turn();
      const stopped = leaving.stop();
      const begun = [...leaving.begun];
      await stopped;
      expect(leaving.begun).toEqual(begun);
      const left = await carryOut(staying);
      for (const run of runs) if (!leaving.beginnings().includes(run.id)) await left.until(1, run.id);
      await left.stop();
    }
  });

  test("a queue stops and closes while Redis is away, when the running work has ended", async () => {
    for (const trouble of ["freeze", "kill"] as const) {
      const { server, nodes, queue } = await startQueue();
      const work = await carryOut(queue, { atOnce: false });
      const run = runOf(nodes.clock);
      await queue.add(run);
      await work.until(1, run.id);
      await server[trouble]();
      const stopped = work.stop();
      work.finish(run);
      await stopped;
      await queue.close();
      await expect(queue.add(run)).rejects.toMatchObject(unavailable);
    }
  });

  test("a closed queue leaves no connection behind", async () => {
    const { server, queue } = await startQueue();
    await carryOut(queue);
    await expect(carryOut(queue)).rejects.toThrow("the queue runs already has a handler");
    await queue.close();
    const admin = connectTo(server.url);
    while (/\n./.test(String(await admin.call("CLIENT", "LIST")))) await turn();
  });

  test("opening a queue fails with a sentence if Redis is missing or refuses the login", async () => {
    const { port } = await startOne({ password: "open sesame" });
    const refusal = (url: string) => {
      return new RedisPlace(url).open().then(
        () => expect.unreachable("it was opened"),
        (error: Error) => error.message,
      );
    };
    const wrong = await refusal(`redis://:hunter2@127.0.0.1:${port}`);
    expect(wrong).toMatch(`INTERLOCK_BUS: redis://127.0.0.1:${port} cannot be used: WRONGPASS`);
    expect(wrong).not.toContain("hunter2");
    expect(await refusal("redis://127.0.0.1:1")).toMatch("INTERLOCK_BUS: redis://127.0.0.1:1 cannot be used: ");
  });

  test("a Redis that refuses writes, and breaks a connection with each refusal, is logged once for each reason", async () => {
    const server = await startOne();
    const reasons: string[] = [];
    const log = new KeptLog();
    log.warn = ({ reason }: { reason?: string }) => void reasons.push(reason!);
    const options = { urls: [server.url] as const, epoch: "e1", clock: new SystemClock(), log };
    const queue = await openBullmqQueue(options);
    onTestFinished(() => queue.close());
    await carryOut(queue);
    const admin = connectTo(server.url);
    const connections = async () => {
      await queue.add(runOf(options.clock)).catch(() => {});
      return Number(/total_connections_received:(\d+)/.exec(await admin.info("stats"))![1]);
    };
    const before = await connections();
    await admin.replicaof("127.0.0.1", "1");
    await expect.poll(connections).toBeGreaterThan(before + RECONNECTIONS);
    await admin.replicaof("NO", "ONE");
    expect(reasons).not.toEqual([]);
    expect(reasons).toEqual([...new Set(reasons)]);
  });
});
