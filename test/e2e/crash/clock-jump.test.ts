/** A head unit without a battery-backed clock boots in 1970, and gets the time from a satellite some minutes later. */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { scripted } from "../../support/catalogs/e2e-catalog.ts";
import { Caller, writeTemporary } from "../../support/clients/callers.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { turn } from "../../support/runner/virtual-clock.ts";
import { signWithSecret } from "../../support/servers/token-issuer.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

const BOOT = Date.UTC(1970, 0, 1, 0, 1);
const TODAY = Date.UTC(2026, 10, 20, 8);
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

const agents = [
  scripted("general", { priority: 40 }),
  scripted("brief", { priority: 40, idle_timeout: "2m" }),
  scripted("idler", { priority: 40, idle_timeout: "1h" }),
  scripted("fleeting", { priority: 20, max_pause: "1h" }),
  scripted("phone", { priority: 90 }),
  scripted("patient", { priority: 10, when_blocked: "queue", queue_timeout: "1h" }),
];

beforeEach(() => {
  vi.useFakeTimers({ now: BOOT });
});

/**
 * The nodes of the test. They stop while virtual time passes, because the timers that they wait for would never fire in
 * real time.
 */
const nodes: NodeUnderTest[] = [];
afterEach(async () => {
  try {
    for (const node of nodes.splice(0)) await whileTimePasses(node.stop());
  } finally {
    vi.useRealTimers();
  }
});

/** Let time pass in steps, each after the work of the one before. */
async function pass(ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 10 * SECOND) {
    await vi.advanceTimersByTimeAsync(Math.min(left, 10 * SECOND));
    await turn();
  }
}

/** Let time pass while a node starts or stops, because it may wait for a timer. */
async function whileTimePasses<T>(work: Promise<T>): Promise<T> {
  let isDone = false;
  const end = () => {
    isDone = true;
  };
  work.then(end, end);
  while (!isDone) await pass(SECOND / 10);
  return await work;
}

async function startNode(settings: Record<string, string> = {}): Promise<NodeUnderTest> {
  const node = await NodeUnderTest.start({ agents, settings });
  nodes.push(node);
  return node;
}

/** The satellite's time arrives: the wall clock is set, and compared with the elapsed time. */
async function learnTheTime(): Promise<void> {
  vi.setSystemTime(TODAY);
  await pass(SECOND);
}

test("a timer waits as long as it would without the jump of the clock, and then fires", async () => {
  const node = await startNode();
  const clients = new Map<string, E2eClient>();
  const ids = new Map<string, string>();
  const hold = async (agentId: string) => {
    const client = new E2eClient(node);
    clients.set(agentId, client);
    ids.set(agentId, (await client.hold(agentId)).id);
    return client;
  };
  const stateOf = async (agentId: string) => (await clients.get(agentId)!.see(ids.get(agentId)!)).state;
  await hold("brief");
  await hold("idler");
  const car = await hold("fleeting");
  await car.hold("phone");
  const waiting = await car.create("patient", { activate: true });
  expect(waiting.queuedAt).toBeGreaterThanOrEqual(BOOT);
  expect(waiting.queuedAt).toBeLessThan(BOOT + MINUTE);

  await pass(MINUTE);
  await learnTheTime();
  expect((await accepted(node.get("/agents"))).success).toBe(true);
  // Created after the jump, and due before all others: it fires when they must not.
  const later = new E2eClient(node);
  const { id: laterId } = await later.hold("brief");
  const brief = await clients.get("brief")!.follow(ids.get("brief")!);
  await pass(MINUTE);
  const paused = await brief.findState(ids.get("brief")!, "paused");
  expect(paused.data).toMatchObject({ reason: "idle_timeout" });
  expect(Date.parse(paused.timestamp)).toBeGreaterThan(TODAY);
  expect((await later.see(laterId)).state).toBe("active");
  const states = () => Promise.all(["idler", "fleeting"].map(stateOf));
  expect(await states()).toEqual(["active", "paused"]);
  expect((await car.see(waiting.id)).queuedAt).toBe(waiting.queuedAt);

  const follow = await Promise.all([
    clients.get("idler")!.follow(ids.get("idler")!),
    car.follow(ids.get("fleeting")!),
    car.follow(waiting.id),
    later.follow(laterId),
  ]);
  await pass(MINUTE);
  await follow[3]!.findState(laterId, "paused");
  await pass(HOUR - 4 * MINUTE);
  expect(await states()).toEqual(["active", "paused"]);
  await pass(MINUTE);
  await follow[0]!.findState(ids.get("idler")!, "paused");
  await follow[1]!.findState(ids.get("fleeting")!, "archived");
  const timeout = await follow[2]!.find(({ data }) => data["reason"] === "queue_timeout");
  expect(timeout.type).toBe("arbitration");
});

test("a run has waited as long as without the jump of the clock", async () => {
  const node = await startNode();
  const ann = new E2eClient(node);
  const { id } = await ann.hold("general");
  await learnTheTime();
  await ann.say(id, "hello");
  const waited = async (what: "count" | "sum") => {
    const { text } = await node.send("GET", "/metrics");
    return Number(new RegExp(`^interlock_run_wait_seconds_${what}(?:{.*})? (.+)$`, "m").exec(text)![1]);
  };
  while ((await waited("count")) === 0) await pass(SECOND / 10);
  expect(await waited("sum")).toBeLessThan(MINUTE / SECOND);
});

test("nothing is pruned by a clock that has just jumped", async () => {
  const node = await startNode({ INTERLOCK_RETENTION: "1h" });
  const ann = new E2eClient(node);
  const { id } = await ann.hold("general");
  const key = "before-the-jump";
  const first = await ann.say(id, "hello", { id: "m1" }, { key });
  await accepted(ann.on(id, "archive"));
  const { connectionId } = await ann.connect();
  await pass(30 * SECOND);
  await learnTheTime();
  // The hour of pruning comes several times.
  await pass(3 * MINUTE);
  // An answer that arrives now comes after the pruning.
  await ann.hold("general");
  const log = await ann.log(id);
  expect(log.map(({ seq }) => seq)).toEqual(Array.from({ length: log.length }, (_, n) => n + 1));
  expect(log[0]).toMatchObject({ type: "session_created" });
  expect((await ann.say(id, "hello", { id: "m1" }, { key })).text).toBe(first.text);
  const bound = await ann.create("general", { connectionId });
  expect(bound.state).toBe("created");
});

test("after the clock was far ahead for a moment, tokens are valid by the time that is right, also when the node is restarted", async () => {
  const secret = "0123456789abcdef0123456789abcdef";
  const path = await writeTemporary("secret", secret, onTestFinished);
  const { file, remove } = await makeFolder();
  onTestFinished(remove);
  const settings = { INTERLOCK_STORE: `sqlite:${file}`, INTERLOCK_AUTH: `jwt:${path}` };
  vi.setSystemTime(TODAY);
  const sign = () => signWithSecret(secret, { sub: "ann" });
  const lasting = await signWithSecret(secret, { sub: "ann", exp: (TODAY + 100 * 24 * HOUR) / SECOND });
  const node = await startNode(settings);
  const early = await sign();
  const statusOf = async (token: string, at = node) => (await new Caller(at, token).get("/agents")).status;
  expect(await statusOf(early)).toBe(200);
  vi.setSystemTime(TODAY + 24 * HOUR);
  await pass(2 * SECOND);
  expect([await statusOf(early), await statusOf(lasting)]).toEqual([401, 200]);
  // An event of the wrong time, before which no later start begins.
  await accepted(new Caller(node, lasting).post("/session/create", { agentId: "general" }));
  vi.setSystemTime(TODAY + 10 * SECOND);
  await pass(2 * SECOND);
  expect([await statusOf(early), await statusOf(await sign())]).toEqual([200, 200]);
  const ann = new Caller(node, await signWithSecret(secret, { sub: "ann", exp: TODAY / SECOND + 60 }));
  const stream = await ann.stream("/events");
  const { ticket } = (await accepted(ann.post("/ticket"))) as unknown as { ticket: string };
  expect((await node.stream(`/events?ticket=${ticket}`)).status).toBe(200);
  await pass(HOUR);
  expect((await stream.end()).at(-1)).toMatchObject({ type: "bye", data: { reason: "token_expired" } });
  expect([await statusOf(early), await statusOf(await sign())]).toEqual([401, 200]);

  await whileTimePasses(node.stop());
  nodes.pop();
  const second = await startNode(settings);
  expect([await statusOf(early, second), await statusOf(await sign(), second)]).toEqual([401, 200]);
});

test("a limit of requests is for its time, also after the clock was set back", async () => {
  const secret = "0123456789abcdef0123456789abcdef";
  const path = await writeTemporary("secret", secret, onTestFinished);
  vi.setSystemTime(TODAY);
  const settings = { INTERLOCK_AUTH: `jwt:${path}`, INTERLOCK_RATE_LIMITS: "owner=3/1m" };
  const node = await startNode(settings);
  const ann = new Caller(node, await signWithSecret(secret, { sub: "ann", exp: TODAY / SECOND + 3_600 }));
  const ask = async () => {
    const { status, headers } = await ann.get("/agents");
    return status === 429 ? `429 after ${headers["retry-after"]} s` : status;
  };
  expect([await ask(), await ask()]).toEqual([200, 200]);
  vi.setSystemTime(TODAY - 24 * HOUR);
  await pass(10 * SECOND);
  expect([await ask(), await ask()]).toEqual([200, "429 after 50 s"]);
  await pass(50 * SECOND);
  expect([await ask(), await ask(), await ask(), await ask()]).toEqual([200, 200, 200, "429 after 60 s"]);
  vi.setSystemTime(TODAY + 24 * HOUR);
  await pass(2 * SECOND);
  vi.setSystemTime(TODAY);
  expect(await ask()).toEqual("429 after 58 s");
});

test("what a program of an agent takes is measured by the time that elapses", async () => {
  vi.useFakeTimers({ now: BOOT, toFake: ["Date"] });
  const go = join((await makeFolder()).folder, "go");
  const args = ["-c", 'cat > /dev/null; echo begun; until [ -e "$0" ]; do sleep 0.05; done', go];
  const node = await NodeUnderTest.start({
    agents: [{ name: "program", adapter: { kind: "command", command: "sh", args } }],
    catalog: { default_agent: "program" },
    env: { PATH: process.env["PATH"]! },
  });
  nodes.push(node);
  const client = new E2eClient(node);
  const { id } = await client.hold("program");
  const events = await client.follow(id);
  await client.say(id, "go");
  await events.find(({ type }) => type === "delta");
  vi.setSystemTime(TODAY);
  await writeFile(go, "");
  const { data } = await events.find((event) => event.data["name"] === "exit");
  expect((data["data"] as { durationMs: number }).durationMs).toBeLessThan(MINUTE);
});

test("what waits for a time of the wall clock asks when the clock arrives there, also by a jump", async () => {
  const node = await startNode();
  const ann = new E2eClient(node);
  const at = (ms: number) => new Date(TODAY + ms).toISOString();
  // Further ahead than a session may be asked for at boot.
  expect((await ann.askToCreate({ agentId: "general", at: at(-HOUR) })).status).toBe(400);
  const boots = await ann.create("brief", { in: "2m" });
  await learnTheTime();
  // Its time lies in 1970, so it asks at once.
  const stream = await ann.follow(boots.id);
  await stream.findState(boots.id, "active.idle");
  const bea = new E2eClient(node);
  const series = await bea.create("brief", { every: "30 9 * * *", timezone: "UTC" });
  const floor = await node.stream(`${bea.floorPath}/events`);
  await pass(2 * HOUR);
  const made = (await floor.until(({ data }) => data["series"] === series.id)).at(-1)!;
  expect(Math.round((Date.parse(made.timestamp) - TODAY) / MINUTE)).toBe(90);
  // Set forward over two of its times, it asks once.
  vi.setSystemTime(TODAY + 50 * HOUR);
  await pass(SECOND);
  await floor.until(({ data }) => data["series"] === series.id);
  expect(await bea.see(series.id)).toMatchObject({ schedule: { at: TODAY + 73.5 * HOUR } });
});
