import { afterAll, expect, test } from "vitest";
import { E2E_AGENTS } from "../../../support/catalogs/e2e-catalog.ts";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start({
  agents: E2E_AGENTS,
  catalog: {
    default_agent: "general",
    priority_rules: [
      { name: "emergency", agents: ["vehicle"], when: "emergency", adjust: 45 },
      { name: "quiet", when: "quiet", adjust: -100 },
    ],
    user_preferences: { picky: { agent_priority_overrides: { music: 70, chat: 5 } } },
  },
});
afterAll(() => node.stop());

test("a floor shows its holder, the paused and queued sessions, its flags and its decisions", async () => {
  const ann = new E2eClient(node);
  const chat = await ann.hold("chat");
  const music = await ann.hold("music");
  const phone = await ann.hold("phone");
  const { session: queued } = await accepted(ann.askToCreate({ agentId: "patient", activate: true }));
  await refused(ann.askToCreate({ agentId: "weather", activate: true }));
  const floor = await ann.floor();
  expect(floor).toMatchObject({ floorId: `u:${ann.userId}`, flags: {}, position: expect.any(String) });
  expect(floor.holder).toEqual(await ann.see(phone.id));
  expect(floor.paused).toEqual([await ann.see(music.id), await ann.see(chat.id)]);
  expect(floor.queued).toEqual([queued]);
  expect(floor.decisions.map(({ outcome, challenger }) => `${challenger.agentId} ${outcome}`)).toEqual([
    ...["chat granted", "music granted", "phone granted", "patient queued", "weather rejected"],
  ]);
});

test("an unused floor is empty, not an error", async () => {
  const ann = new E2eClient(node);
  const position = expect.stringMatching(/^[a-z0-9]{1,6}\.0$/);
  const empty = { holder: null, paused: [], queued: [], flags: {}, decisions: [], position };
  expect(await ann.floor()).toEqual({ success: true, floorId: `u:${ann.userId}`, ...empty });
});

test("a floor remembers its last 50 decisions, the newest last", async () => {
  const ann = new E2eClient(node);
  await ann.hold("phone");
  for (let asked = 0; asked < 51; asked += 1) {
    await refused(ann.askToCreate({ agentId: asked === 50 ? "chat" : "music", activate: true }));
  }
  const { decisions } = await ann.floor();
  const asked = decisions.map(({ challenger }): string => challenger.agentId);
  expect(asked).toEqual([...Array(49).fill("music"), "chat"]);
});

const USERS = ["a/b", "a/b/c", "张三", "a:b", "100%", "a b", "?x=1#y", ".", "ü".repeat(128)];
test.each(USERS)("a floor's id contains the user %j, encoded by itself and in the path", async (userId) => {
  const ann = new E2eClient(node, userId);
  // A repeated test finds the floor as its first try left it.
  await accepted(node.post(`${ann.floorPath}/stop-all`));
  const { id } = await ann.hold("music");
  const floor = await ann.floor();
  expect(floor.floorId).toBe(`u:${encodeURIComponent(userId)}`);
  expect(floor.holder!.id).toBe(id);
});

test("a floor's id contains a zone after a slash, which is different from a slash in a name", async () => {
  const ann = new E2eClient(node, node.newUser("slash/er"));
  const { session } = await accepted(ann.askToCreate({ agentId: "music", zone: "后/排", activate: true }));
  const floorId = `u:${encodeURIComponent(ann.userId)}/${encodeURIComponent("后/排")}`;
  expect(session.floorId).toBe(floorId);
  const zone = await accepted(node.get(`/floor/${encodeURIComponent(floorId)}`));
  expect(zone).toMatchObject({ floorId, holder: { id: session.id } });
  expect((await ann.floor()).holder).toBeNull();
});

test("different spellings of a floor's id name the same floor", async () => {
  const ann = new E2eClient(node, node.newUser("spelt"));
  const { id } = await ann.hold("music");
  const floor = await accepted(node.get(`/floor/${encodeURIComponent(`u:%73${ann.userId.slice(1)}`)}`));
  expect(floor).toMatchObject({ floorId: `u:${ann.userId}`, holder: { id } });
});

const WRONG = ["nonsense", "u:", "s:", "x:y", "u:a/b/c", "u:%", "u:%zz", "s:a b", "u:%00", "s:a/b"];
test.each([...WRONG, `u:${"x".repeat(129)}`])("a floor's id may not be %j: 400, at its path", async (text) => {
  const path = `/floor/${encodeURIComponent(text)}`;
  const answers = [
    node.get(path),
    node.get(`${path}/events`),
    node.post(`${path}/stop`),
    node.put(`${path}/flags`, {}),
  ];
  for (const answer of answers) {
    expect(await refused(answer)).toMatchObject({ errorCode: "bad_request", issues: [{ path: "params.id" }] });
  }
});

const setFlags = (ann: E2eClient, flags: unknown) => node.put(`${ann.floorPath}/flags`, flags);

test("flags replace the whole set, and are logged on the floor", async () => {
  const ann = new E2eClient(node);
  const stream = await node.stream(`${ann.floorPath}/events`);
  const flags = { emergency: true, night: false };
  expect(await accepted(setFlags(ann, flags))).toEqual({ success: true, flags });
  expect(await stream.find("floor_updated")).toMatchObject({ data: { flags } });
  await accepted(setFlags(ann, { rain: true }));
  expect((await ann.floor()).flags).toEqual({ rain: true });
  await accepted(setFlags(ann, {}));
  expect((await ann.floor()).flags).toEqual({});
});

test.each([
  [{ emergency: "yes" }],
  [{ "Not A Flag": true }],
  [["emergency"]],
  [Object.fromEntries(Array.from({ length: 33 }, (_, flag) => [`f${flag}`, true]))],
])("invalid flags are refused: %j", async (flags) => {
  const ann = new E2eClient(node);
  expect((await refused(setFlags(ann, flags))).errorCode).toBe("bad_request");
  expect((await ann.floor()).flags).toEqual({});
});

const whatIf = (ann: E2eClient, agentId: unknown) => node.post(`${ann.floorPath}/what-if`, { agentId });

test.each([undefined, "", "No Such", 7])("what-if refuses %j", async (agentId) => {
  const { issues } = await refused(whatIf(new E2eClient(node), agentId));
  expect(issues[0]!.path).toBe("body.agentId");
});
