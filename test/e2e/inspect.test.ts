import { createWebSocketReceiver, type StatelyInspectionEvent } from "@statelyai/inspect";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { inspect } from "../../src/cli/inspect.ts";
import { keysFile, writeTemporary } from "../support/clients/callers.ts";
import { accepted, E2eClient } from "../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../support/nodes/node-under-test.ts";
import { freePort } from "../support/servers/free-port.ts";

const node = await NodeUnderTest.start({}, afterAll);

/** A feed of these floors; it ends with the test. */
async function feed(floorIds: string[] = [], { url } = node): Promise<string> {
  const stopping = new AbortController();
  const address = Promise.withResolvers<string>();
  const faults: string[] = [];
  const done = inspect(url, { floorIds, port: 0, signal: stopping.signal }, address.resolve, (why) => faults.push(why));
  onTestFinished(async () => {
    stopping.abort();
    expect(await done).toBe(0);
    expect(faults).toEqual([]);
  });
  return address.promise;
}

/** The package's own receiver. */
function receive(server: string) {
  const received: StatelyInspectionEvent[] = [];
  let changed = Promise.withResolvers<void>();
  const receiver = createWebSocketReceiver({ server });
  receiver.subscribe((event) => {
    received.push(event);
    changed.resolve();
    changed = Promise.withResolvers();
  });
  return {
    received,
    async find(holds: (event: StatelyInspectionEvent) => boolean): Promise<StatelyInspectionEvent> {
      for (;;) {
        const found = received.find(holds);
        if (found) return found;
        await changed.promise;
      }
    },
  };
}

/** The answer to an upgrade. */
async function statusOf(address: string, headers: Record<string, string> = {}): Promise<number | undefined> {
  const socket = new WebSocket(address, { headers });
  const answered = Promise.withResolvers<number | undefined>();
  socket.on("open", () => answered.resolve(101));
  socket.on("unexpected-response", (_, { statusCode }) => answered.resolve(statusCode));
  socket.on("error", () => {});
  const status = await answered.promise;
  socket.terminate();
  return status;
}

const stateOf = (event: StatelyInspectionEvent) =>
  "snapshot" in event ? (event.snapshot as unknown as { value: unknown }).value : undefined;

describe("interlock inspect", () => {
  test("interlock inspect sends a reader of Stately's package the existing actors, and then the events", async () => {
    const ann = new E2eClient(node);
    const music = await ann.hold("music");
    const receiver = receive(await feed([music.floorId]));
    const actor = await receiver.find(({ type, sessionId }) => type === "@xstate.actor" && sessionId === music.id);
    expect(actor).toMatchObject({ parentId: music.floorId, rootId: music.floorId });
    expect(stateOf(actor)).toEqual({ lifecycle: "active", activity: "idle" });
    expect(receiver.received[0]).toMatchObject({ type: "@xstate.actor", sessionId: music.floorId });
    const phone = await ann.hold("phone");
    const paused = await receiver.find(({ type, sessionId }) => type === "@xstate.snapshot" && sessionId === music.id);
    expect(stateOf(paused)).toEqual({ lifecycle: "paused", activity: "idle" });
    const preempted = receiver.received.find(
      ({ type, sessionId }) => type === "@xstate.event" && sessionId === music.id,
    );
    expect(preempted).toMatchObject({ sourceId: phone.id, event: { type: "preempt" } });
    await accepted(ann.on(phone.id, "archive"));
    await receiver.find(
      (event) => event.sessionId === phone.id && (stateOf(event) as { lifecycle?: string })?.lifecycle === "archived",
    );
  });

  test("interlock inspect follows every floor that comes into use unless one is named", async () => {
    const receiver = receive(await feed());
    const ann = new E2eClient(node);
    const { id, floorId } = await ann.hold("music");
    await receiver.find(({ type, sessionId }) => type === "@xstate.actor" && sessionId === id);
    expect(receiver.received.some(({ sessionId }) => sessionId === floorId)).toBe(true);
  });

  test("interlock inspect begins with all sessions of a floor, also those that are heard beneath its holder", async () => {
    const agents = [
      { name: "general", priority: 40 },
      { name: "prompt", priority: 80, beneath: { music: -14 } },
      { name: "music", priority: 20, when_preempted: "duck" },
    ];
    const car = await NodeUnderTest.start({ agents }, onTestFinished);
    const ann = new E2eClient(car);
    const { id, floorId } = await ann.hold("music");
    await ann.hold("prompt");
    expect(await ann.see(id)).toMatchObject({ state: "ducked" });
    const receiver = receive(await feed([floorId], car));
    const actor = await receiver.find(({ type, sessionId }) => type === "@xstate.actor" && sessionId === id);
    expect(stateOf(actor)).toEqual({ lifecycle: "ducked", activity: "idle" });
  });

  test("interlock inspect shows the floors in use, however many were used before", async () => {
    const car = await NodeUnderTest.start({}, onTestFinished);
    const receiver = receive(await feed([], car));
    const holdAll = async (count: number) => {
      const users = Array.from({ length: count }, () => new E2eClient(car));
      return await Promise.all(users.map(async (user) => ({ user, id: (await user.hold("music")).id })));
    };
    const before = await holdAll(64);
    for (const { id } of before) await receiver.find(({ sessionId }) => sessionId === id);
    const more = await holdAll(3);
    for (const { user, id } of before) await accepted(user.on(id, "archive"));
    for (const { id } of more) await receiver.find(({ sessionId }) => sessionId === id);
  });

  test("interlock inspect of a named floor waits for a node that is not there yet", async () => {
    const port = await freePort();
    const stopping = new AbortController();
    const [address, fault] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
    const options = { floorIds: ["u:ann"], port: 0, signal: stopping.signal };
    const done = inspect(`http://127.0.0.1:${port}`, options, address.resolve, fault.resolve);
    expect(await fault.promise).toContain("does not answer. Trying again. Start a node");
    const receiver = receive(await address.promise);
    const late = await NodeUnderTest.start({ settings: { PORT: String(port) } }, onTestFinished);
    const music = await new E2eClient(late, "ann").hold("music");
    await receiver.find(({ type, sessionId }) => type === "@xstate.actor" && sessionId === music.id);
    stopping.abort();
    expect(await done).toBe(0);
  });

  test("interlock inspect of a node that requires a token names the variable for it", async () => {
    const file = await writeTemporary("keys.yaml", keysFile([{ owner: "ann", key: "a".repeat(32) }]), onTestFinished);
    const closed = await NodeUnderTest.start({ settings: { INTERLOCK_AUTH: `keys:${file}` } }, onTestFinished);
    const faults: string[] = [];
    const options = { floorIds: [], port: 0, signal: AbortSignal.timeout(60_000) };
    const onFault = (why: string) => void faults.push(why);
    expect(await inspect(closed.url, options, () => {}, onFault)).toBe(1);
    expect(faults).toEqual(["Authentication is required. Set INTERLOCK_TOKEN to a token or key of the node."]);
  });

  test("interlock inspect admits requests with the token, and no page of another origin", async () => {
    const address = await feed(["u:nobody"]);
    expect(await statusOf(address)).toBe(101);
    expect(await statusOf(address, { Origin: "http://localhost:5173" })).toBe(101);
    expect(await statusOf(address.replace(/token=.*/, "token=guess"))).toBe(401);
    expect(await statusOf(address, { Origin: "https://evil.example" })).toBe(403);
    expect(await statusOf(address, { Host: "evil.example" })).toBe(403);
  });
});
