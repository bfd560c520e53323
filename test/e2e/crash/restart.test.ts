import { describe, expect, test } from "vitest";
import { create, messagesOf, say } from "../../support/clients/node-client.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { type ChildServer, makeInstallation } from "../../support/nodes/child-server.ts";
import { atEndOfSuite } from "../../support/runner/at-end-of-suite.ts";
import { beforeTries } from "../../support/runner/before-tries.ts";

const SONG = Array.from({ length: 50 }, (_, n) => `la${n} `);
const WHOLE = SONG.join("");
const sings = { kind: "scripted", replies: [{ say: SONG, delay: "8ms" }] };
/** The same song, which is never over on the node that is killed. */
const BEGUN = ["la0 la1 la2 ", ...SONG.slice(3)];
const singsForHours = { kind: "scripted", replies: [{ say: BEGUN, delay: "1h" }] };

const asks = { ask: { question: "Which?", options: ["a"] }, say: ["You chose {answer}."] };

const catalogOf = (sings: object) => ({
  agents: [
    { name: "singer", priority: 20, adapter: { ...sings, yields: "hold" } },
    { name: "yielder", priority: 20, adapter: { ...sings, yields: "abort" } },
    { name: "teller", priority: 20, adapter: { ...sings, restartable: false } },
    { name: "phone", priority: 90 },
    { name: "queuer", priority: 10, when_blocked: "queue", queue_timeout: "3s" },
    { name: "idler", priority: 20, idle_timeout: "3s" },
    { name: "asker", priority: 20, adapter: { kind: "scripted", replies: [asks] } },
  ],
});

/** One node was killed during all kinds of work, and another one started on its file. */
let server: ChildServer;
const readers = new Map<string, SessionReader>();
/** What clients received before the kill. */
const runIds = new Map<string, string>();
const stored = new Map<string, string>();
let connection: SessionReader;
let connectionId: string;
let positions: { session: string; floor: string };
const atEnd = atEndOfSuite();

const readerOf = (id: string) => readers.get(id)!;
const eventsOf = (id: string, type: string) => readerOf(id).eventsOf(id, type);
const answersOf = async (id: string) => (await messagesOf(server, id)).filter(({ role }) => role === "assistant");
const sessionOf = async (id: string) => (await server.ask("GET", `/session/${id}`)).body.session;
const completed = (id: string) => readerOf(id).has(id, "complete");

/** A session that has its user's floor, with its own reader. */
async function begin(id: string, agentId: string, userId = id): Promise<void> {
  await create(server, id, agentId, { userId });
  readers.set(id, await new SessionReader(`${server.url}/session/${id}/events`).open());
}

async function ask(id: string, content?: string): Promise<void> {
  runIds.set(id, await say(server, id, content));
}

/** A session whose reply is being streamed, with some of it stored. */
async function sing(id: string, agentId: string): Promise<void> {
  await begin(id, agentId);
  await ask(id);
  await readerOf(id).until(({ writing }) => [...writing.values()].some((text) => text.includes("la2 ")));
  // It is stored at most a quarter of a second later.
  while (!stored.get(id)) stored.set(id, (await answersOf(id))[0]?.content ?? "");
}

/** Writes without a key, which their clients mark as repeats, and what names the effect in the answer. */
const WRITES: [path: string, body: object, effect: RegExp][] = [
  ["/message", { type: "chat", sessionId: "unkeyed", content: "hello" }, /"runId":"[^"]+"/],
  ["/message", { type: "chat", agentId: "phone", userId: "unkeyed2", content: "hello" }, /"sessionId":"[^"]+"/],
  ["/session/create", { agentId: "phone", userId: "unkeyed3" }, /"id":"[^"]+"/],
  [
    "/v1/chat/completions",
    { model: "phone", user: "unkeyed4", messages: [{ role: "user", content: "hello" }] },
    /"run":"[^"]+"/,
  ],
];
/** The effects of these before the kill and after it. */
let effects: (string | undefined)[][];
const write = (retries: number) =>
  Promise.all(
    WRITES.map(async ([path, body, effect]) => {
      const headers = { "Content-Type": "application/json", "x-stainless-retry-count": String(retries) };
      const answer = await fetch(server.url + path, { method: "POST", headers, body: JSON.stringify(body) });
      return effect.exec(await answer.text())?.[0];
    }),
  );

beforeTries(async () => {
  for (const reader of readers.values()) reader.close();
  stored.clear();
  const installation = await makeInstallation(catalogOf(sings), { INTERLOCK_INTERACTION_TIMEOUT: "20s" }, atEnd);
  atEnd(() => {
    for (const reader of [...readers.values(), connection]) reader.close();
  });
  server = await installation.start({ catalog: catalogOf(singsForHours) });
  connection = await new SessionReader(`${server.url}/events`).open();
  connectionId = (await connection.stream.next("connected")).data.connectionId;
  // With a second connection open, sessions that name no connection are not bound to the first.
  const other = await new SessionReader(`${server.url}/events`).open();
  await other.stream.next("connected");
  atEnd(() => other.close());
  const { position: session } = await create(server, "bound", "phone", { connectionId });
  const floor = (await server.ask("GET", "/floor/u%3Abound")).body.position;
  positions = { session, floor };
  await connection.until((transcript) => transcript.stateOf("bound") === "active.idle");

  await begin("asker", "asker");
  await ask("asker");
  await readerOf("asker").has("asker", "user_question_request");
  for (const id of ["held", "aborted"]) {
    await sing(id, id === "held" ? "singer" : "yielder");
    await begin(`${id}-phone`, "phone", id);
    await readerOf(id).until((transcript) => transcript.stateOf(id) === "paused");
  }
  await begin("idler", "idler");
  await ask("idler", "hello");
  await completed("idler");
  await begin("busy", "phone", "queue");
  await begin("queuer", "queuer", "queue");
  await Promise.all([sing("singer", "singer"), sing("teller", "teller")]);
  await begin("unkeyed", "phone");
  const before = await write(0);
  await server.kill();

  server = await installation.start();
  effects = [before, await write(1)];
  for (const reader of [...readers.values(), connection]) {
    reader.moveTo(server.url);
    await reader.open();
  }
});

test("a write without a key that its client repeats at the restarted node has one effect", async () => {
  const [before, after] = effects;
  expect(before).toEqual(WRITES.map(() => expect.any(String)));
  expect(after).toEqual(before);
});

describe("a run that was in progress when its node was killed", () => {
  test("a run in progress at the kill of its node runs again if its agent is restartable, and its text is kept", async () => {
    await completed("singer");
    const runId = runIds.get("singer");
    const answers = await answersOf("singer");
    expect(answers.map((answer) => [answer.status, answer.runId])).toEqual([
      ["interrupted", runId],
      ["success", runId],
    ]);
    expect(answers[0]!.content.startsWith(stored.get("singer")!)).toBe(true);
    expect(answers[1]!.content).toBe(WHOLE);
    expect(eventsOf("singer", "complete").map(({ data }) => data.runId)).toEqual([runId]);
    expect((await sessionOf("singer")).activity).toBe("idle");
  });

  test("a run in progress at the kill of its node fails if its agent is not restartable, and its text is kept", async () => {
    await completed("teller");
    expect(eventsOf("teller", "error").map(({ data }) => data.errorCode)).toEqual(["run_lost"]);
    expect(eventsOf("teller", "complete").map(({ data }) => data.runId)).toEqual([runIds.get("teller")]);
    const [question, answer, ...more] = await messagesOf(server, "teller");
    expect(more).toMatchObject([{ role: "assistant", content: "", status: "error", errorCode: "run_lost" }]);
    expect(question).toMatchObject({ role: "user", content: "go", status: "success" });
    expect(answer!.status).toBe("interrupted");
    expect(answer!.content.startsWith(stored.get("teller")!)).toBe(true);
    expect(await sessionOf("teller")).toMatchObject({ state: "active", activity: "failed" });
    // Sending the message again is a retry.
    await ask("teller");
    await readerOf("teller").has("teller", "complete", 2);
    expect(await sessionOf("teller")).toMatchObject({ state: "active", activity: "idle" });
  });

  test.each(["held", "aborted"])(
    "a run that was paused at the kill of its node, and that its agent had %s, continues after a resume",
    async (id) => {
      expect(await sessionOf(id)).toMatchObject({ state: "paused", activity: "running" });
      expect((await server.post(`/session/${id}-phone/archive`)).status).toBe(200);
      await completed(id);
      expect(eventsOf(id, "complete").map(({ data }) => data.runId)).toEqual([runIds.get(id)]);
      const answers = await answersOf(id);
      expect(answers.map(({ status }) => status)).toEqual(["interrupted", "success"]);
      expect(answers[0]!.content.startsWith(stored.get(id)!)).toBe(true);
      expect(answers[1]!.content).toBe(WHOLE);
    },
  );

  test("a run in progress at the kill of its node asks its question again, and accepts the answer", async () => {
    await readerOf("asker").has("asker", "user_question_request", 2);
    const [old, again] = eventsOf("asker", "user_question_request");
    const resolved = eventsOf("asker", "interaction_resolved");
    expect(resolved).toMatchObject([{ requestId: old!.requestId, data: { by: "abort" } }]);
    const { requestId } = again!;
    const answer = { type: "user_question_response", sessionId: "asker", requestId, response: "a" };
    expect((await server.post("/message", answer)).status).toBe(200);
    await completed("asker");
    expect((await messagesOf(server, "asker")).at(-1)!.content).toBe("You chose a.");
  });
});

describe("a timer of a killed node", () => {
  test("a timer that waited when its node was killed fires at its time", async () => {
    await readerOf("queuer").until(() => eventsOf("queuer", "arbitration").at(-1)?.data.reason === "queue_timeout");
    await readerOf("idler").until((transcript) => transcript.stateOf("idler") === "paused");
    expect((await sessionOf("queuer")).state).toBe("created");
  });
});

describe("a position from before the node was killed", () => {
  test("a position from before the kill is valid for a connection, a session and a floor, with all bindings", async () => {
    expect((await connection.stream.next("connected")).data.connectionId).toBe(connectionId);
    await ask("bound", "hello");
    await connection.has("bound", "complete");
    expect(connection.stream.typesHeard()).not.toContain("reset");
    // As answers gave them.
    for (const [path, position] of [
      ["/session/bound/events", positions.session],
      ["/floor/u%3Abound/events", positions.floor],
    ]) {
      const reader = new SessionReader(`${server.url}${path}?lastEventId=${position}`);
      reader.transcript.maySkip = true;
      await reader.open();
      // The turn that came after the restart.
      await reader.until(() => reader.eventsOf("bound").some(({ data }) => data.to === "active.running"));
      expect(reader.stream.typesHeard()).not.toContain("reset");
      // The events of its creation came before.
      expect(reader.stream.typesHeard()).not.toContain("session_created");
      reader.close();
    }
  });
});
