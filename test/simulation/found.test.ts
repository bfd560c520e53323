/**
 * Faults that histories found, each reduced to the necessary steps. The numbers are the seeds of the histories that
 * found them, in the simulation of that time.
 */

import { describe, expect, onTestFinished, test, vi } from "vitest";
import { AppError } from "../../src/protocol/errors.ts";
import type { FloorId, SessionId } from "../../src/protocol/ids.ts";
import type { Store } from "../../src/store/store.ts";
import { makeCatalog } from "../support/catalogs/catalog.ts";
import { FloorStage, type LooseCommand } from "../support/floors/floor-stage.ts";
import { HostStage } from "../support/floors/host-stage.ts";
import { turn } from "../support/runner/virtual-clock.ts";
import { MemoryStore } from "../support/stores/memory-store.ts";
import { withMethods } from "../support/stores/temporary-store.ts";

describe("turns that wait while their session is paused (history 741)", () => {
  const agents = [
    { name: "music", priority: 20, when_busy: "enqueue", adapter: { kind: "scripted", yields: "hold" } },
    { name: "phone", priority: 90 },
  ];

  /** A paused session whose run has ended, and in which a turn waits. */
  function waiting(): FloorStage {
    const floor = new FloorStage(makeCatalog(agents));
    floor.create("music");
    floor.chat("music", "m1");
    floor.claim("music", "run-m1");
    floor.chat("music", "m2");
    floor.on("music", "pause");
    floor.report("music", "run-m1", 1, { outcome: { kind: "done" } });
    return floor;
  }

  test("turns that wait while their session is paused precede the turn that gets the floor back", () => {
    const floor = waiting();
    expect(floor.chat("music", "m3")).toMatchObject({ ok: true, messageId: "m3", decision: { outcome: "granted" } });
    expect(floor.state("music")).toBe("active.running");
    expect(floor.actors.machineState("music" as never)?.context).toMatchObject({
      run: { id: "run-m2" },
      turns: [{ runId: "run-m3" }],
    });
    floor.claim("music", "run-m2");
    floor.report("music", "run-m2", 1, { outcome: { kind: "done" } });
    floor.claim("music", "run-m3");
    floor.report("music", "run-m3", 1, { outcome: { kind: "done" } });
    expect(floor.events("complete").map(({ runId }) => runId)).toEqual(["run-m1", "run-m2", "run-m3"]);
  });

  test("queued turns of a paused session begin when it gets the floor back, even without room for another turn", () => {
    const floor = waiting();
    // Sixteen may wait.
    floor.on("music", "resume");
    for (let nth = 3; nth < 19; nth++) floor.chat("music", `m${nth}`);
    floor.on("music", "pause");
    floor.claim("music", "run-m2");
    floor.on("music", "abort");
    expect(floor.state("music")).toBe("paused");
    expect(floor.chat("music", "m99")).toMatchObject({ ok: false, code: "agent_busy" });
    // A message for which there is no room asks for nothing.
    expect(floor.state("music")).toBe("paused");
    floor.on("music", "resume");
    expect(floor.actors.machineState("music" as never)?.context.run?.id).toBe("run-m3");
  });
});

describe("a queued session that is about to be woken when its time is up (history 39)", () => {
  const agents = [
    { name: "chat", priority: 10, when_blocked: "queue", queue_timeout: "30s" },
    { name: "phone", priority: 90, interruptible: false },
  ];

  /** The phone session is gone, and the chat would be woken in a second; its wait ends before. */
  function reserved(): FloorStage {
    const floor = new FloorStage(makeCatalog(agents, { policy: { resume_delay: "1s" } }));
    floor.create("phone");
    floor.create("chat");
    floor.pass(29_500);
    floor.on("phone", "archive");
    floor.pass(500);
    return floor;
  }

  test("a queued session about to be woken when its queue_timeout passes is still woken", () => {
    const floor = reserved();
    floor.pass(500);
    expect(floor.state("chat")).toBe("active.idle");
  });

  test("a queued session about to be woken when its queue_timeout passes leaves the queue if another precedes it", () => {
    const floor = reserved();
    floor.create("phone", { id: "second" });
    expect(floor.state("second")).toBe("active.idle");
    expect(floor.events("arbitration").at(-1)).toMatchObject({ outcome: "rejected", reason: "queue_timeout" });
    expect(floor.actors.context.floor.queued).toEqual([]);
  });
});

/** A host over a store, with room for one floor, to which the system sends commands. */
async function makeHost(store: Store) {
  const stage = await HostStage.open({ maxFloors: 1, openStore: async () => store });
  stage.catalog = makeCatalog([{ name: "music" }]);
  return { tell: (command: LooseCommand) => stage.ask(command, { caller: null }), log: stage.log };
}

const author = { kind: "master" as const, name: "music", depth: 0, path: ["music"] };

/** A report of the same text for each of these messages of the run. */
const report = (messageIds: readonly string[], n: number, offset: number): LooseCommand => ({
  ...{ type: "run.report", sessionId: "music", runId: "run", attempt: 1, n },
  parts: messageIds.flatMap((messageId) => [
    ...(n === 1 ? [{ kind: "open" as const, messageId, agent: author }] : []),
    { kind: "append" as const, messageId, offset, text: "la" },
  ]),
});

/** A host over a store, with a run that has begun these messages. */
async function beginRun(store: Store, messageIds: readonly string[]) {
  const { tell } = await makeHost(store);
  const session = { sessionId: "music", agentId: "music", userId: "ann" };
  await tell({ type: "session.create", sessionId: "music", session, activate: true });
  await tell({ type: "session.chat", sessionId: "music", turn: { messageId: "t", runId: "run", content: "play" } });
  await tell({ type: "run.claim", sessionId: "music", runId: "run", claimId: "c", hasNoDriver: false });
  await tell(report(messageIds, 1, 0));
  return tell;
}

test("a floor that another node commits to during a read is read again, and the torn read is no fault (history 172)", async () => {
  const store = new MemoryStore();
  const tell = await beginRun(store, ["m"]);
  let isFirst = true;
  const loadDrafts = async (id: FloorId, after?: number) => {
    // The other node accepts the next report after the floor's row was read.
    if (isFirst) await tell(report(["m"], 2, 2));
    isFirst = false;
    return store.loadDrafts(id, after);
  };
  const other = await makeHost(withMethods(store, { loadDrafts }));
  const directive = { verdict: "go", answers: [] };
  expect(await other.tell(report(["m"], 2, 2))).toMatchObject({ ok: true, directive });
  expect(await other.tell(report(["m"], 3, 4))).toMatchObject({ ok: true, directive });
  expect(other.log.lines).toEqual([]);
  expect(store.messagesOf("music" as SessionId).at(-1)?.content).toBe("lalala");
});

test("a floor whose unfinished messages fill several pages continues on another node with all of them", async () => {
  const store = new MemoryStore();
  const messageIds = ["m0", "m1", "m2"];
  await beginRun(store, messageIds);
  const loadDrafts = async (id: FloorId, after = 0) => {
    const { messages } = await store.loadDrafts(id);
    return { messages: messages.slice(after, after + 1), next: after + 1 < messages.length ? after + 1 : undefined };
  };
  const other = await makeHost(withMethods(store, { loadDrafts }));
  expect(await other.tell(report(messageIds, 2, 2))).toMatchObject({ ok: true, directive: { verdict: "go" } });
  const contents = store.messagesOf("music" as SessionId).map(({ content }) => content);
  expect(contents).toEqual(["play", "lala", "lala", "lala"]);
});

test("a batch that cannot be read completely is given up, and no dropped actor receives a command (history 1850)", async () => {
  const warn = vi.spyOn(console, "warn");
  onTestFinished(() => warn.mockRestore());
  const store = new MemoryStore();
  const { tell } = await makeHost(store);
  for (const id of ["a", "b"]) {
    const session = { sessionId: id, agentId: "music", userId: "ann" };
    await tell({ type: "session.create", sessionId: id, session, activate: false });
  }
  const slow = Promise.withResolvers<void>();
  const loadSession = async (id: SessionId) => {
    if (id === "a") throw new AppError("unavailable");
    await slow.promise;
    return store.loadSession(id);
  };
  const other = await makeHost(withMethods(store, { loadSession }));
  const asked = ["a", "b"].map((sessionId) => other.tell({ type: "session.abort", sessionId }));
  const settled = Promise.allSettled(asked);
  await turn();
  slow.resolve();
  expect(await settled).toMatchObject([{ reason: { code: "unavailable" } }, { reason: { code: "unavailable" } }]);
  await turn();
  expect(warn).not.toHaveBeenCalled();
});
