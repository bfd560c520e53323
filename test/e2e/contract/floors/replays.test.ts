import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { ReplayAnswer } from "../../../../src/client/answers.ts";
import { E2E_AGENTS, WITH_MUSIC_BENEATH } from "../../../support/catalogs/e2e-catalog.ts";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { type Answer, NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const YAML = { "Content-Type": "application/yaml" };
const CATALOGUE = JSON.stringify({ agents: E2E_AGENTS, default_agent: "general" });
const BENEATH = JSON.stringify({ agents: WITH_MUSIC_BENEATH, default_agent: "general" });

let node: NodeUnderTest;
let ann: E2eClient;
beforeAll(async () => {
  node = await NodeUnderTest.start();
  ann = new E2eClient(node, "ann");
  const music = await ann.hold("music");
  await ann.talk(music.id, "hello");
  const call = await ann.hold("phone");
  await refused(node.post("/session/create", { userId: "ann", agentId: "weather", activate: true }));
  await accepted(ann.on(call.id, "archive"));
  await vi.waitUntil(async () => (await ann.see(music.id)).state === "active");
});
afterAll(() => node.stop());

const replay = (raw: string, query = "", floor = "/floor/u%3Aann", at = node): Promise<Answer> =>
  at.post(`${floor}/replay${query}`, undefined, { raw, headers: YAML });
const bodyOf = ({ body }: Answer) => body as unknown as ReplayAnswer;

test("a floor's log replays without a difference with the catalogue in force", async () => {
  const answer = await accepted(replay(CATALOGUE)).then(() => replay(CATALOGUE));
  expect(answer.body).toMatchObject({ requests: 3, differing: 0, differences: [], hasMore: false, unknown: 0 });
  const { before, after, agents } = bodyOf(answer);
  const typesOf = (events: ReplayAnswer["before"]) => events.map(({ type }) => type).toSorted();
  expect(typesOf(after)).toEqual(typesOf(before));
  expect(agents.map(({ agentId }) => agentId)).toEqual(["music", "phone", "weather"]);
  expect(agents[2]).toMatchObject({ before: { requests: 1, rejected: 1 }, after: { requests: 1, rejected: 1 } });
});

test("another catalogue's differences are listed, with both logs, and nothing is written", async () => {
  const log = await node.get("/floor/u%3Aann/log");
  const answer = bodyOf(await replay(BENEATH));
  const music = answer.differences.find(({ agentId }) => agentId === "music");
  expect(music).toMatchObject({ before: "paused for phone", after: "ducked -14 dB for phone" });
  const statesOf = (events: ReplayAnswer["before"]) =>
    events.flatMap((event) => (event.type === "session_transition" ? [event.data.to] : []));
  expect(statesOf(answer.before)).toContain("paused");
  expect(statesOf(answer.after)).not.toContain("paused");
  const { before, after } = answer.agents.find(({ agentId }) => agentId === "music")!;
  expect([before.silentMs > 0, after.silentMs]).toEqual([true, 0]);
  const created = (events: ReplayAnswer["before"]) =>
    events.flatMap((event) => (event.type === "session_created" ? [event.data.title] : []));
  expect(created(answer.after)).toEqual(created(answer.before));
  expect((await node.get("/floor/u%3Aann/log")).body).toEqual(log.body);
});

test("a floor without events in that time has nothing to replay", async () => {
  const nothing = { requests: 0, differing: 0, before: [], after: [], agents: [], hasMore: false };
  expect((await replay(CATALOGUE, "", "/floor/u%3Anobody")).body).toMatchObject(nothing);
  expect(bodyOf(await replay(CATALOGUE, "?lastMs=1")).requests).toBe(0);
});

test("a log replays with agents that operators defined, which a catalogue in a file lacks", async () => {
  await accepted(node.post("/agents/definitions", { name: "helper", workspaceId: "w", basedOn: "general" }));
  await accepted(node.post("/session/create", { userId: "bob", agentId: "helper", workspaceId: "w", activate: true }));
  expect(bodyOf(await replay(CATALOGUE, "", "/floor/u%3Abob"))).toMatchObject({ requests: 1, differing: 0 });
});

test("what is no catalogue, or no time, is refused with a sentence", async () => {
  const faulty = await replay("agents:\n  - name: a\n    priority: 101\n");
  expect(faulty).toMatchObject({
    status: 400,
    body: {
      errorCode: "bad_request",
      error: "The catalogue has faults.",
      faults: [{ line: 3, column: 15, path: "agents[0].priority", message: "must be at most 100, not 101" }],
    },
  });
  const deep = await replay(`agents: ${"[".repeat(200_000)}`);
  expect([deep.status, deep.body.errorCode]).toEqual([400, "bad_request"]);
  expect((await replay(" ".repeat(1_048_577))).status).toBe(413);
  expect((await node.post("/floor/u%3Aann/replay", {})).body.error).toBe(
    "The request has another Content-Type. Send it as application/yaml.",
  );
  expect((await replay(CATALOGUE, "?lastMs=0")).status).toBe(400);
  expect((await replay(CATALOGUE, `?lastMs=${32 * 86_400_000}`)).status).toBe(400);
});
