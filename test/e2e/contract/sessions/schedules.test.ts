import { afterAll, expect, test } from "vitest";
import { createClient } from "../../../../src/client/client.ts";
import { E2E_AGENTS } from "../../../support/catalogs/e2e-catalog.ts";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start({
  agents: [...E2E_AGENTS, { name: "radio", priority: 50, adapter: { kind: "external" } }],
});
afterAll(() => node.stop());
const client = createClient({ baseUrl: node.url });

const BERLIN = "Europe/Berlin";
const NEXT_YEAR = new Date().getUTCFullYear() + 1;

test("a session asks for the floor at its time, with its message", async () => {
  const ann = new E2eClient(node);
  const session = await ann.create("general", { in: "1s", content: "nod" });
  expect(session).toMatchObject({ state: "created", schedule: { content: "nod" }, messageCount: 0 });
  const stream = await ann.follow(session.id);
  await stream.find("complete");
  expect(await ann.see(session.id)).toMatchObject({ state: "active", title: "nod" });
  const log = await ann.log(session.id);
  const fired = log.find(({ data }) => data["fired"])?.data["fired"] as { at: number; lateMs: number };
  expect(fired.at).toBe(session.schedule!.at);
  expect((await ann.messages(session.id)).map(({ role }) => role)).toEqual(["user", "assistant"]);
});

test("a time is an instant, or one of local clocks; it is listed, changed and cancelled as the session is", async () => {
  const ann = new E2eClient(node);
  const seven = `${NEXT_YEAR}-07-01T07:00`;
  const one = await ann.create("general", { at: `${seven}:00+02:00` });
  const other = await ann.create("general", { at: seven, timezone: BERLIN });
  expect([one.schedule, other.schedule]).toEqual([{ at: Date.UTC(NEXT_YEAR, 6, 1, 5) }, one.schedule]);
  const series = await ann.create("general", { every: "0 7 * * mon-fri", timezone: BERLIN, title: "Briefing" });
  expect(series.schedule).toMatchObject({ every: "0 7 * * mon-fri", timezone: BERLIN });
  const listed = await client.listSessions({ userId: ann.userId, state: "created" });
  expect(listed.sessions.map(({ schedule }) => schedule)).toContainEqual(series.schedule);

  const { session } = await client.scheduleSession(one.id, { at: `${NEXT_YEAR}-01-02T00:00:00Z`, content: "nod" });
  expect(session.schedule).toEqual({ at: Date.UTC(NEXT_YEAR, 0, 2), content: "nod" });
  await expect(client.activateSession(one.id)).rejects.toMatchObject({ code: "illegal_command" });
  await expect(client.moveSession(one.id, "rear")).rejects.toMatchObject({ code: "illegal_command" });
  await client.archiveSession(series.id);
  expect(await ann.see(series.id)).not.toHaveProperty("schedule");
  // A copy has no time.
  const { session: copy } = await client.forkSession(other.id);
  expect(copy).not.toHaveProperty("schedule");
  // Nor has a session that has had the floor.
  const held = await ann.hold("general");
  await expect(client.scheduleSession(held.id, { in: "1m" })).rejects.toMatchObject({ code: "illegal_command" });
});

test.each([
  [{ at: "2020-01-01T00:00:00Z" }, "at"],
  [{ at: `${NEXT_YEAR + 6}-01-01T00:00:00Z` }, "at"],
  [{ at: "tomorrow", timezone: BERLIN }, "at"],
  [{ at: "2027-02-30T07:00", timezone: BERLIN }, "at"],
  [{ at: `${NEXT_YEAR}-01-01T07:00` }, "timezone"],
  [{ at: `${NEXT_YEAR}-01-01T07:00:00Z`, timezone: BERLIN }, "timezone"],
  [{ in: "10" }, "in"],
  [{ in: "0s" }, "in"],
  [{ in: "400d" }, "in"],
  [{ in: "1m", every: "0 7 * * *", timezone: BERLIN }, "every"],
  [{ in: "1m", at: `${NEXT_YEAR}-01-01T07:00:00Z` }, "in"],
  [{ every: "0 7 * *", timezone: BERLIN }, "every"],
  [{ every: "0 7 * * *" }, "timezone"],
  [{ every: "0 7 30 2 *", timezone: BERLIN }, "every"],
  [{ every: "0 7 * * *", timezone: "Europe/Berlim" }, "timezone"],
  [{ content: "nod" }, "content"],
  [{ in: "1m", content: "x".repeat(4_097) }, "content"],
  [{ in: "1m", activate: true }, "activate"],
])("a faulty schedule is refused, and names what is wrong: %j", async (fields, path) => {
  const ann = new E2eClient(node);
  const answer = await refused(ann.askToCreate({ agentId: "general", ...fields }));
  expect(answer).toMatchObject({ errorCode: "bad_request", issues: [{ path: `body.${path}` }] });
});

test("a series needs a user, and a program of its own gets no message", async () => {
  const ann = new E2eClient(node);
  const every = { every: "0 7 * * *", timezone: BERLIN };
  const alone = await refused(node.post("/session/create", { agentId: "general", ...every }));
  expect(alone).toMatchObject({ errorCode: "bad_request", issues: [{ path: "body.userId" }] });
  const radio = await refused(ann.askToCreate({ agentId: "radio", in: "1m", content: "nod" }));
  expect(radio).toMatchObject({ errorCode: "illegal_command" });
  expect(await accepted(node.post("/session/create", { agentId: "general", in: "1h" }))).toMatchObject({
    session: { schedule: {} },
  });
});

test("a forgotten user's schedules are gone", async () => {
  const ann = new E2eClient(node);
  await ann.create("general", { every: "* * * * *", timezone: "UTC" });
  await client.forgetUser(ann.userId);
  expect((await client.listSessions({ userId: ann.userId, includeArchived: true })).total).toBe(0);
});
