import { expect, test } from "vitest";
import { CAR, RESTRICTIONS } from "../../../support/catalogs/car-catalog.ts";
import { startGuarded } from "../../../support/clients/callers.ts";
import { accepted, refused } from "../../../support/clients/e2e-client.ts";

const ROUTING = [
  { says: "fire", agent: "chime_agent" },
  { says: "music", agent: "music_agent" },
];
const catalog = { restrictions: RESTRICTIONS, default_agent: "ecall_agent", routing: ROUTING };
const { bob, ops } = await startGuarded({ agents: CAR, catalog });
const FLAGS = `/floor/${encodeURIComponent("u:bob")}/flags`;

const why = { errorCode: "forbidden", error: "Only operators may start sessions of a critical agent." };

test("a user cannot create a session of a critical agent: not by name, as the default agent, or by a first message", async () => {
  const create = (fields: object) => bob.post("/session/create", { userId: "bob", activate: true, ...fields });
  expect(await refused(create({ agentId: "chime_agent" }))).toMatchObject(why);
  expect(await refused(create({}))).toMatchObject(why);
  const first = { type: "chat", userId: "bob", content: "help" };
  expect(await refused(bob.post("/message", first))).toMatchObject(why);
  expect(await refused(bob.post("/message", { ...first, agentId: "chime_agent" }))).toMatchObject(why);
  expect(await refused(create({ activate: undefined, zone: "*", agentId: "chime_agent" }))).toMatchObject(why);
  expect((await accepted(bob.get("/session/list?includeArchived=true"))).total).toBe(0);
});

test("a user's what-if of a critical agent is refused like its request, an operator's is not", async () => {
  for (const about of [{ agentId: "chime_agent" }, { content: "help" }]) {
    const whatIf = await accepted(bob.post("/floor/u%3Abob/what-if", about));
    expect(whatIf.refused).toEqual({ ...why, retryable: false });
    expect(whatIf.decision).toBeUndefined();
    expect(await accepted(ops.post("/floor/u%3Abob/what-if", about))).toMatchObject({
      decision: { outcome: "granted" },
    });
  }
});

test("a user's sentence does not reach a critical agent: its row is passed over", async () => {
  const fire = { type: "chat", content: "fire, play music" };
  expect(await accepted(bob.post("/message", { ...fire, userId: "bob" }))).toMatchObject({
    routed: { agent: "music_agent", row: 2, passed: [{ row: 1, why: "not_usable" }] },
  });
  expect(await accepted(ops.post("/message", { ...fire, userId: "ops" }))).toMatchObject({
    routed: { agent: "chime_agent", row: 1 },
  });
});

test("a user cannot switch another session to a critical agent", async () => {
  const { session } = await accepted(bob.post("/session/create", { userId: "bob", agentId: "music_agent" }));
  const asked = { type: "switch_agent", sessionId: session.id, agentId: " chime_agent " };
  expect(await refused(bob.post("/message", asked))).toMatchObject(why);
  expect((await accepted(bob.get(`/session/${session.id}`))).session.agentId).toBe("music_agent");
});

test("an operator creates a session of a critical agent for a user, who sees it", async () => {
  await accepted(ops.post("/floor/u%3Abob/stop-all"));
  const wanted = { userId: "bob", agentId: "chime_agent", activate: true };
  const { session } = await accepted(ops.post("/session/create", wanted));
  expect((await accepted(bob.get(`/session/${session.id}`))).session).toMatchObject({ state: "active" });
});

test("a change of one flag keeps the others: the power manager and the gear do not overwrite each other's", async () => {
  await accepted(ops.ask("PUT", FLAGS, {}));
  await accepted(ops.ask("PATCH", FLAGS, { user_switched: false, night: true }));
  expect((await accepted(ops.ask("PATCH", FLAGS, { reverse_gear: true }))).flags).toEqual({
    ...{ user_switched: false, night: true, reverse_gear: true },
  });
  expect((await accepted(ops.ask("PATCH", FLAGS, { reverse_gear: false }))).flags["night"]).toBe(true);
  expect((await accepted(ops.ask("PUT", FLAGS, { rain: true }))).flags).toEqual({ rain: true });
});

test("a floor has at most 32 flags, and a change that would exceed the limit changes nothing", async () => {
  const named = (from: number, count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`flag-${from + index}`, true]));
  await accepted(ops.ask("PUT", FLAGS, named(0, 31)));
  const { errorCode } = await refused(ops.ask("PATCH", FLAGS, named(100, 2)));
  expect(errorCode).toBe("bad_request");
  expect(Object.keys((await accepted(ops.ask("PATCH", FLAGS, named(100, 1)))).flags)).toHaveLength(32);
  await accepted(ops.ask("PATCH", FLAGS, named(0, 31)));
  await accepted(ops.ask("PUT", FLAGS, {}));
});
