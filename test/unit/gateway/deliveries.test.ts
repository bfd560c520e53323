import { EventEmitter } from "node:events";
import type { FastifyRequest } from "fastify";
import { expect, onTestFinished, test } from "vitest";
import type { Bus } from "../../../src/bus/bus.ts";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import { AbandonedRuns, type WaitEnd } from "../../../src/gateway/deliveries/abandoned-runs.ts";
import { type ConnectionEnd, deliveryAfter } from "../../../src/gateway/deliveries/delivery.ts";
import { RecentRequests } from "../../../src/gateway/deliveries/recent-requests.ts";
import type { Identity } from "../../../src/gateway/idempotent-commands.ts";
import { peerKeyOf } from "../../../src/gateway/streams/silent-peers.ts";
import type { FloorId, RunId, SessionId } from "../../../src/protocol/ids.ts";
import type { Session } from "../../../src/protocol/session.ts";
import type { NewReceipt, Store } from "../../../src/store/store.ts";
import { UnreliableBus } from "../../support/networks/unreliable-bus.ts";
import { turn, VirtualClock } from "../../support/runner/virtual-clock.ts";
import { KeptLog } from "../../support/stores/sqlite-place.ts";

const CLOSED: ConnectionEnd = {
  afterMs: 5,
  isBroken: false,
  isByClient: true,
  isKept: true,
  isWanted: true,
  isBrowsersOwn: false,
  hasActed: false,
};

test.each([
  ["its client asked once and ended", {}, "arrived"],
  ["its client asked once and ended, and a tool was called", { hasActed: true }, "doubtful"],
  ["its client had not asked to keep the connection", { hasActed: true, isWanted: false }, "arrived"],
  ["a browser had used the connection before", { isBrowsersOwn: true }, "lost"],
  ["HTTP closes the connection behind it", { isBrowsersOwn: true, isKept: false }, "arrived"],
  ["this node closed the connection", { isBrowsersOwn: true, isByClient: false }, "arrived"],
  ["the connection was reset", { isBroken: true }, "lost"],
  ["the connection was reset, and HTTP closes it", { isBroken: true, isKept: false }, "lost"],
  ["the connection was reset long after it", { isBroken: true, afterMs: 1_001 }, "arrived"],
  ["the connection was closed long after it", { isBrowsersOwn: true, afterMs: 1_001 }, "arrived"],
] satisfies [string, Partial<ConnectionEnd>, string][])("of an answer, if %s: %j is %s", (_, end, state) => {
  expect(deliveryAfter({ ...CLOSED, ...end })).toBe(state);
});

type Ending = "arrives" | "is lost" | "fails";

/** Two nodes on one store, whose clients send the same request again and again. */
async function makeNodes() {
  const bus = new UnreliableBus();
  const clock = new VirtualClock();
  const silent = new Map<string, number>();
  /** The keys of the commands that were carried out, oldest first. */
  const stored: NewReceipt[] = [];
  /** The runs that have not ended. */
  const unfinished: string[] = [];
  const store: Pick<Store, "newestReceipts" | "newestTime" | "listRuns"> = {
    newestReceipts: async (since, limit) =>
      stored
        .filter(({ at }) => at >= since)
        .slice(-limit)
        .reverse(),
    newestTime: async () => Math.max(0, ...stored.map(({ at }) => at)),
    listRuns: async () => {
      const memory = (runId: string) => JSON.stringify({ turns: [{ runId }] });
      return {
        sessions: unfinished.map((id) => ({ session: {} as Session, memory: memory(id), at: 0 })),
        hasMore: false,
      };
    },
  };
  const time = () => clock.now();
  const start = async (on: Bus = bus) => {
    const node = new RecentRequests({ bus: on, clock, epoch: "e", store, time, unanswered: async () => silent });
    onTestFinished(() => node.close());
    await turn();
    return node;
  };
  const nodes = [await start(), await start()];
  let sent = 0;
  const send = async (node: RecentRequests, headers: Record<string, string> = {}, caller = "ann") => {
    const identity = { caller: { id: caller }, bodyHash: "hello", commandId: `c${++sent}`, mayBeRepeat: false };
    const socket = { localPort: 80, remotePort: 40_000 + sent, remoteAddress: "10.0.0.1" };
    const facts = { statusCode: 200, shouldKeepAlive: true, destroyed: false, socket };
    const response = Object.assign(new EventEmitter(), facts);
    const request = { headers, ip: "127.0.0.1", response } as unknown as FastifyRequest;
    let isIdentified = false;
    const identified = node.identify(identity as unknown as Identity, request).finally(() => {
      isIdentified = true;
    });
    // A node that is asked answers at once, unless it is dead.
    for (let turns = 0; turns < 12 && !isIdentified; turns += 1) await turn();
    if (!isIdentified) await clock.advance(250);
    const { commandId, mayBeRepeat } = await identified;
    if (!mayBeRepeat) {
      const isRun = headers["user-agent"] === "waits" || headers["user-agent"] === "read";
      const reply = JSON.stringify(isRun ? { runId: `run of ${commandId}` } : {});
      stored.push({ caller, commandId, at: clock.now(), reply, floorId: `u:${sent}` as FloorId });
    }
    const end = async (how: Ending) => {
      response.statusCode = how === "fails" ? 503 : 200;
      if (how !== "is lost") response.emit("finish");
      response.emit("close");
      await turn();
    };
    /** The client's machine has vanished: it acknowledges nothing that was sent to it. */
    const vanish = () => silent.set(peerKeyOf(socket), 100);
    return { command: commandId.split(".")[0]!, end, vanish };
  };
  return { here: nodes[0]!, there: nodes[1]!, bus, clock, send, start, stored, unfinished };
}

test("the request whose answer was lost is repeated at any node, and one whose answer arrived is over", async () => {
  const { here, there, send } = await makeNodes();
  const first = await send(here);
  await first.end("is lost");
  const again = await send(there);
  expect(again.command).toBe("c1");
  await again.end("arrives");
  expect((await send(here)).command).toBe("c3");
});

test("an answer that says that its outcome is unknown is lost", async () => {
  const { here, send } = await makeNodes();
  await (await send(here)).end("fails");
  expect((await send(here)).command).toBe("c1");
});

test("a lost answer is asked for again within 30 s, by its caller, for the same session, by the same program", async () => {
  const { here, clock, send } = await makeNodes();
  const agent = { "user-agent": "a", "interlock-session": "s" };
  await (await send(here, agent)).end("is lost");
  expect((await send(here, agent, "eve")).command).toBe("c2");
  expect((await send(here, { ...agent, "interlock-session": "t" })).command).toBe("c3");
  expect((await send(here, { ...agent, "user-agent": "b" })).command).toBe("c4");
  await clock.advance(29_000);
  const again = await send(here, agent);
  expect(again.command).toBe("c1");
  await again.end("is lost");
  await clock.advance(30_001);
  expect((await send(here, agent)).command).toBe("c6");
});

test("an answer that a vanished client has not acknowledged is lost, and any other on an open connection arrived", async () => {
  const { here, clock, send } = await makeNodes();
  const first = await send(here);
  await first.end("arrives");
  expect((await send(here, { "user-agent": "other" })).command).toBe("c2");
  first.vanish();
  await clock.advance(1_000);
  expect((await send(here)).command).toBe("c1");
});

test("of equal requests that are lost together each is repeated once", async () => {
  const { here, send } = await makeNodes();
  const [one, two] = [await send(here), await send(here)];
  expect([one.command, two.command]).toEqual(["c1", "c2"]);
  await one.end("is lost");
  await two.end("is lost");
  expect([(await send(here)).command, (await send(here)).command, (await send(here)).command]).toEqual([
    "c1",
    "c2",
    "c5",
  ]);
});

test("an equal request beside one whose answer is under way is a new one, here and there, unless it is marked", async () => {
  const { here, there, send } = await makeNodes();
  await send(here);
  expect((await send(here)).command).toBe("c2");
  expect((await send(there)).command).toBe("c3");
  const marked = { "x-stainless-retry-count": "1" };
  expect((await send(there, marked)).command).toBe("c3");
});

test("a request that its client names is repeated also when its answer arrived, for as long as clients repeat", async () => {
  const { here, there, clock, send } = await makeNodes();
  const named = { "request-id": "r1" };
  await (await send(here, named)).end("arrives");
  expect((await send(there, named)).command).toBe("c1");
  expect((await send(there, { "request-id": "r2" })).command).toBe("c3");
  await (await send(here, named)).end("arrives");
  await clock.advance(30_001);
  expect((await send(here, named)).command).toBe("c5");
});

test("the answer of a node that died is lost", async () => {
  const { here, there, send } = await makeNodes();
  await send(here);
  here.close();
  expect((await send(there)).command).toBe("c1");
});

/** Deliver, in their order, all messages that wait and those that this sends, once a node has done all it can. */
async function deliverAll(bus: UnreliableBus) {
  for (let turns = 0; turns < 4; turns += 1) await turn();
  while (bus.lateCount > 0) {
    await bus.deliverLate();
    await turn();
  }
}

test("the answer of a node that died is lost also if its last news is slower than the repeat", async () => {
  const { here, there, bus, send } = await makeNodes();
  bus.fate = () => "delay";
  await send(here);
  here.close();
  const again = send(there);
  await deliverAll(bus);
  expect((await again).command).toBe("c1");
});

test("what a node told before it died does not count as a sign of life", async () => {
  const { here, there, bus, send } = await makeNodes();
  await send(here);
  bus.fate = () => "delay";
  await send(here, { "x-stainless-retry-count": "1" });
  here.close();
  const again = send(there);
  await deliverAll(bus);
  expect((await again).command).toBe("c1");
});

test("a node that begins again does not know which answers arrived: for 5 s an equal request may be the same one", async () => {
  const { here, clock, send, start } = await makeNodes();
  const local = new MemoryBus();
  await (await send(here)).end("arrives");
  await (await send(here)).end("arrives");
  here.close();
  await clock.advance(29_000);
  const second = await start(local);
  expect((await send(second, { "user-agent": "other" })).command).toBe("c3");
  expect((await send(second)).command).toBe("c2");
  expect((await send(second)).command).toBe("c1");
  expect((await send(second)).command).toBe("c6");
  const third = await start(local);
  await clock.advance(5_001);
  expect((await send(third)).command).toBe("c7");
});

test("what was committed before the last 100 ms of a node that begins again was answered, unless its run goes on", async () => {
  const { here, clock, send, start, stored, unfinished } = await makeNodes();
  await send(here);
  await send(here, { "user-agent": "waits" });
  unfinished.push(`run of ${stored[1]!.commandId}`);
  await clock.advance(101);
  await send(here, { "user-agent": "last" });
  await send(here, { "user-agent": "read" });
  await send(here, { "user-agent": "went on" });
  // Its client has sent this floor another command since.
  stored.push({ ...stored.at(-1)!, commandId: "keyed" });
  here.close();
  const second = await start(new MemoryBus());
  expect((await send(second, { "user-agent": "went on" })).command).toBe("c6");
  expect((await send(second, { "user-agent": "read" })).command).toBe("c7");
  expect((await send(second)).command).toBe("c8");
  expect((await send(second, { "user-agent": "waits" })).command).toBe("c2");
  expect((await send(second, { "user-agent": "last" })).command).toBe("c3");
});

test("a marked request of before a node began again counts for 30 s, also if its answer arrived", async () => {
  const { here, clock, send, start } = await makeNodes();
  const [named, retried] = [{ "request-id": "r1" }, { "x-stainless-retry-count": "1" }];
  await (await send(here, named)).end("arrives");
  await (await send(here)).end("arrives");
  const second = await start(new MemoryBus());
  await clock.advance(29_000);
  expect((await send(second, named)).command).toBe("c1");
  expect((await send(second, retried)).command).toBe("c2");
  await clock.advance(1_001);
  expect((await send(await start(new MemoryBus()), named)).command).toBe("c5");
});

test("a node that begins beside others asks them about older requests; of a node that died it knows nothing", async () => {
  const { here, there, send, start } = await makeNodes();
  await (await send(here)).end("arrives");
  await (await send(there, { "user-agent": "other" })).end("arrives");
  there.close();
  const third = await start();
  expect((await send(third)).command).toBe("c3");
  expect((await send(third, { "user-agent": "other" })).command).toBe("c2");
});

test("while the bus is away each node knows its own answers, and nothing waits", async () => {
  const { here, there, bus, send } = await makeNodes();
  bus.goAway();
  await (await send(here)).end("is lost");
  expect((await send(here)).command).toBe("c1");
  expect((await send(there)).command).toBe("c3");
});

test("the oldest of 4,096 requests gives way, and its repeat is a new request", async () => {
  const { here, send } = await makeNodes();
  await (await send(here)).end("is lost");
  for (let n = 0; n < 4_095; n += 1) await send(here, { "user-agent": String(n) });
  const kept = await send(here);
  expect(kept.command).toBe("c1");
  await kept.end("is lost");
  await send(here, { "user-agent": "one more" });
  expect((await send(here)).command).not.toBe("c1");
});

/** Two nodes with clients that wait for runs. */
async function makeWaits() {
  const bus = new UnreliableBus();
  const clock = new VirtualClock();
  const aborted: string[] = [];
  const abort = async (caller: { id: string }, { runId }: { runId: string }) =>
    void aborted.push(`${runId} by ${caller.id}`);
  const log = new KeptLog();
  const nodes = [0, 1].map(() => new AbandonedRuns({ bus, clock, epoch: "e", log, abort }));
  onTestFinished(() => {
    for (const node of nodes) node.close();
  });
  await turn();
  const arrived: string[] = [];
  const of = (run: string, caller = "ann") =>
    ({ caller: { id: caller }, commandId: `c-${run}` }) as unknown as Identity;
  const wait = async (node: AbandonedRuns, run: string) => {
    const address = { runId: run as RunId, sessionId: "s" as SessionId, floorId: "s:s" as FloorId };
    const end = node.wait({ ...of(run), delivery: { arrive: () => void arrived.push(run) } }, address);
    await turn();
    return async (how: WaitEnd) => {
      end(how);
      await turn();
    };
  };
  const ask = async (node: AbandonedRuns, run: string, caller?: string) => {
    await node.endFor(of(run, caller), "s" as SessionId);
    await turn();
  };
  return { here: nodes[0]!, there: nodes[1]!, clock, aborted, arrived, wait, ask };
}

test("a run whose client hung up goes on for 30 s, and then ends, and its request is over", async () => {
  const { here, clock, aborted, arrived, wait } = await makeWaits();
  await (await wait(here, "r1"))("left");
  await clock.advance(29_999);
  expect([aborted, arrived]).toEqual([[], []]);
  await clock.advance(1);
  expect([aborted, arrived]).toEqual([["r1 by ann"], ["r1"]]);
});

test("a stream that broke before its first word goes on for 3 s, and one that was read ends at once", async () => {
  const { here, clock, aborted, wait } = await makeWaits();
  await (await wait(here, "r1"))("stopped");
  expect(aborted).toEqual(["r1 by ann"]);
  await (await wait(here, "r2"))("unread");
  await clock.advance(2_999);
  expect(aborted).toEqual(["r1 by ann"]);
  await clock.advance(1);
  expect(aborted).toEqual(["r1 by ann", "r2 by ann"]);
});

test("a run that a client waits for again, at any node, goes on; of several clients the last one counts", async () => {
  const { here, there, clock, aborted, wait } = await makeWaits();
  await (await wait(here, "r1"))("left");
  const again = await wait(there, "r1");
  await clock.advance(60_000);
  const twin = await wait(there, "r1");
  await again("left");
  await clock.advance(60_000);
  expect(aborted).toEqual([]);
  await twin("answered");
  await clock.advance(60_000);
  expect(aborted).toEqual([]);
});

test("a run that a client waits for at another node, before that hears that the first one hung up, goes on", async () => {
  const { here, there, clock, aborted, wait } = await makeWaits();
  const first = await wait(here, "r1");
  await wait(there, "r1");
  await first("left");
  await clock.advance(60_000);
  expect(aborted).toEqual([]);
});

test("another request of its caller in the session ends a left run at once, at any node; a repeat of its own does not", async () => {
  const { here, there, clock, aborted, arrived, wait, ask } = await makeWaits();
  await (await wait(here, "r1"))("left");
  await ask(there, "r1");
  await ask(there, "r2", "bob");
  expect(aborted).toEqual([]);
  await ask(there, "r2");
  expect([aborted, arrived]).toEqual([["r1 by ann"], ["r1"]]);
  await clock.advance(60_000);
  expect(aborted).toEqual(["r1 by ann"]);
});

test.each(["left", "unread", "stopped"] as const)(
  "a request that is heard before the hanging up that its client sent first waits for it (%s)",
  async (how) => {
    const { here, aborted, wait, ask } = await makeWaits();
    const end = await wait(here, "r1");
    const asked = ask(here, "r2");
    expect(aborted).toEqual([]);
    await end(how);
    await asked;
    expect(aborted).toEqual(["r1 by ann"]);
  },
);

test("a request beside one whose client stays waits 100 ms, and another caller's does not wait", async () => {
  const { here, clock, aborted, wait, ask } = await makeWaits();
  const end = await wait(here, "r1");
  await ask(here, "r2", "bob");
  const asked = ask(here, "r2");
  await clock.advance(100);
  await asked;
  await end("answered");
  expect(aborted).toEqual([]);
  await ask(here, "r3");
});

test("of 1,024 left runs the oldest ends when another one comes", async () => {
  const { here, aborted, wait } = await makeWaits();
  for (let n = 0; n < 1_024; n += 1) await (await wait(here, `r${n}`))("left");
  expect(aborted).toEqual([]);
  await (await wait(here, "one more"))("left");
  expect(aborted).toEqual(["r0 by ann"]);
});
