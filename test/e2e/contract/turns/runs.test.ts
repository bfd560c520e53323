import { afterAll, expect, test } from "vitest";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start({ settings: { INTERLOCK_NAME: "worker-1" } });
afterAll(() => node.stop());

/** The runs of a user, by a query. */
const runsOf = async ({ userId }: E2eClient, query = "") =>
  (await accepted(node.get(`/runs?userId=${userId}${query}`))).runs;

/** A session with a turn under way. */
async function play(ann: E2eClient, agentId = "general", content = "play") {
  const { id: sessionId } = await ann.hold(agentId);
  const stream = await ann.follow(sessionId);
  const { runId } = await accepted(ann.say(sessionId, content));
  await stream.find(({ type }) => type === "delta" || type.endsWith("_request"));
  return { sessionId, runId, stream };
}

const cancel = (runId: string, key?: string) => node.post(`/runs/${runId}/cancel`, {}, key ? { key } : {});

test("a run is listed with its session, with the node that claimed it, and with what it waits for", async () => {
  const ann = new E2eClient(node);
  const before = Date.now();
  const { sessionId, runId } = await play(ann);
  const [run, ...more] = await runsOf(ann);
  expect(more).toEqual([]);
  expect(run).toEqual({
    ...{ id: runId, sessionId, floorId: `u:${ann.userId}`, userId: ann.userId, agentId: "general", title: "play" },
    ...{ sessionState: "active", state: "driven", attempt: 1, worker: "worker-1" },
    at: expect.any(Number),
    claimedAt: expect.any(Number),
  });
  expect(run!.at).toBeGreaterThanOrEqual(before);
  expect(run!.claimedAt).toBeGreaterThanOrEqual(run!.at);
  await accepted(ann.on(sessionId, "archive"));

  const { runId: asking } = await play(ann, "general", "delete");
  expect(await runsOf(ann)).toMatchObject([
    { id: asking, state: "waits_for_person", asks: [{ kind: "confirmation", tool: "delete_file" }] },
  ]);
});

test("a run of a silent session is held, and turns wait for the floor or for another turn", async () => {
  const ann = new E2eClient(node);
  const { sessionId: stacker, runId, stream } = await play(ann, "stacker");
  const { runId: second } = await accepted(ann.say(stacker, "hello"));
  await ann.hold("phone");
  await stream.findState(stacker, "paused");
  const { id: patient } = await ann.create("patient");
  const { runId: queued } = await accepted(ann.say(patient, "hello"));
  const states = (await runsOf(ann)).map(({ id, state, sessionState }) => [id, state, sessionState]);
  expect(states).toEqual([
    [runId, "held", "paused"],
    [second, "waits_for_turn", "paused"],
    [queued, "waits_for_floor", "created"],
  ]);
});

test("a run that its agent does not hold waits for the floor, and says why it begins again", async () => {
  const ann = new E2eClient(node);
  const { runId } = await play(ann, "restless");
  await ann.hold("phone");
  expect(await runsOf(ann)).toMatchObject([
    { id: runId, state: "waits_for_floor", attempt: 1, again: { after: "paused" } },
  ]);
  expect((await runsOf(ann))[0]!.worker).toBeUndefined();
});

test("a failed run is listed with its code and the provider's sentence, also of an archived session and after a later turn", async () => {
  const ann = new E2eClient(node);
  const turn = async (id: string, content: string) => (await ann.talk(id, content)).at(-1)!.data.runId;
  const fail = async (content: string) => {
    const { id } = await ann.hold("general");
    return { id, runId: await turn(id, content) };
  };
  const first = await fail("offline");
  await accepted(ann.on(first.id, "archive"));
  const second = await fail("refused");
  expect(await runsOf(ann)).toEqual([]);
  const failed = await runsOf(ann, "&state=failed");
  expect(failed.map(({ id, sessionState }) => [id, sessionState])).toEqual([
    [second.runId, expect.any(String)],
    [first.runId, "archived"],
  ]);
  expect(failed[1]).toMatchObject({
    state: "failed",
    failure: { errorCode: "provider_unreachable", message: expect.stringMatching(/./), at: failed[1]!.at },
  });
  await turn(second.id, "nod");
  const later = await runsOf(ann, "&state=failed");
  expect(later.map(({ id, isFollowed }) => [id, isFollowed])).toEqual([
    [second.runId, true],
    [first.runId, undefined],
  ]);
  expect(later[0]!.failure).toEqual(failed[0]!.failure);
  expect((await ann.see(second.id)).failure).toBeUndefined();
  const again = await turn(second.id, "offline");
  expect((await runsOf(ann, "&state=failed")).map(({ id }) => id)).toEqual([again, first.runId]);
  await accepted(node.delete(`/session/${second.id}`));
  expect((await runsOf(ann, "&state=failed")).map(({ id }) => id)).toEqual([first.runId]);
});

test("runs are filtered by state, agent and age, and other filters are refused", async () => {
  const ann = new E2eClient(node);
  const { runId } = await play(ann, "music");
  await ann.hold("phone");
  const ids = async (query: string) => (await runsOf(ann, query)).map(({ id }) => id);
  expect(await ids("&state=held&agentId=music&minAgeMs=0&maxAgeMs=600000")).toEqual([runId]);
  for (const none of ["&state=driven", "&agentId=phone", "&minAgeMs=600000", "&maxAgeMs=0", "&state=failed"])
    expect(await ids(none), none).toEqual([]);
  for (const query of ["agent=music", "state=broken", "limit=501", "limit=0", "after=x", "minAgeMs=-1", "older=1"])
    expect(await refused(node.get(`/runs?${query}`)), query).toMatchObject({ errorCode: "bad_request" });
});

test("a cancelled run ends once: its text stays, the next turn begins, and a repeat changes nothing", async () => {
  const ann = new E2eClient(node);
  const { sessionId, runId, stream } = await play(ann, "stacker");
  const { runId: second } = await accepted(ann.say(sessionId, "sing"));
  const { runId: third } = await accepted(ann.say(sessionId, "hello"));
  const key = `cancel-${runId}`;
  expect(await accepted(cancel(runId, key))).toEqual({ success: true, sessionId });
  const end = await stream.find(({ type, data }) => type === "complete" && data["runId"] === runId);
  expect(end.data).toMatchObject({ cancelled: true });
  await stream.find(({ type, data }) => type === "session_transition" && data["runId"] === second);
  // With its key it is the same request; without, there is no such run any more.
  expect(await accepted(cancel(runId, key))).toEqual({ success: true, sessionId });
  expect(await refused(cancel(runId))).toMatchObject({ errorCode: "not_found" });
  expect(await refused(cancel("no-such-run"))).toMatchObject({ errorCode: "not_found" });
  // A turn that has not begun is withdrawn, and the one under way goes on.
  await accepted(cancel(third));
  const withdrawn = await stream.find(({ type, data }) => type === "complete" && data["runId"] === third);
  expect(withdrawn.data).toMatchObject({ cancelled: true, withdrawn: true });
  expect((await runsOf(ann)).map(({ id }) => id)).toEqual([second]);
  const messages = await ann.messages(sessionId);
  expect(messages.find((message) => message.runId === runId && message.role === "assistant")).toMatchObject({
    ...{ content: "♪ ", status: "interrupted" },
  });
  expect(messages.map(({ content }) => content)).not.toContain("hello");
});

test("a run of a session that is archived or deleted meanwhile is no longer there to be cancelled", async () => {
  const ann = new E2eClient(node);
  for (const end of ["archive", "delete"]) {
    const { sessionId, runId } = await play(ann);
    await accepted(end === "archive" ? ann.on(sessionId, "archive") : node.delete(`/session/${sessionId}`));
    expect(await runsOf(ann)).toEqual([]);
    expect(await refused(cancel(runId))).toMatchObject({ errorCode: "not_found" });
  }
});
