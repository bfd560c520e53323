/** Each outcome of a request for the floor over HTTP. The cases of docs/use/arbitration.md: `test/unit/actors`. */

import { afterAll, expect, test } from "vitest";
import { E2E_AGENTS, scripted } from "../../../support/catalogs/e2e-catalog.ts";
import { accepted, E2eClient } from "../../../support/clients/e2e-client.ts";
import { hold } from "../../../support/clients/e2e-states.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start();
const bilingual = await NodeUnderTest.start({
  agents: [
    ...E2E_AGENTS,
    scripted("bilingual", {
      priority: 40,
      messages: {
        granted: { en: "{challenger} begins.", zh: "{challenger}开始" },
        resumed: { en: "{challenger} goes on.", zh: "{challenger}继续" },
        rejected: { en: "Wait.", zh: "请稍等" },
      },
    }),
  ],
  catalog: { default_agent: "general" },
});
afterAll(() => Promise.all([node.stop(), bilingual.stop()]));

const start = (ann: E2eClient, agentId: string) => ann.askToCreate({ agentId, activate: true });

test("a sentence is said in the language of the session, which is by default the one that its request prefers", async () => {
  const post = async (path: string, body: object, language?: string) =>
    (await bilingual.post(path, body, language === undefined ? {} : { headers: { "Accept-Language": language } })).body;
  const create = (userId: string, more: object, language?: string) =>
    post("/session/create", { agentId: "bilingual", userId, activate: true, ...more }, language);
  const sayings: [more: object, language: string | undefined, say: string, locale: string | undefined][] = [
    [{}, undefined, "Bilingual begins.", undefined],
    [{}, "zh-CN,zh;q=0.9,en;q=0.8", "Bilingual开始", "zh-CN"],
    [{}, "fr", "Bilingual begins.", "fr"],
    [{ locale: "zh" }, "en", "Bilingual开始", "zh"],
  ];
  for (const [more, language, say, locale] of sayings) {
    const userId = bilingual.newUser("speaker");
    const { decision, session } = await create(userId, more, language);
    expect([decision.say, session.locale]).toEqual([say, locale]);
    expect((await post(`/floor/u:${userId}/what-if`, { agentId: "music" }, "zh")).decision.say).toBe("请稍等");
  }
  // The language stays with the session, whatever the request that makes it speak again prefers.
  const { session } = await create(bilingual.newUser(), { locale: "zh" });
  await post(`/session/${session.id}/pause`, {});
  expect((await post(`/session/${session.id}/resume`, {}, "en")).decision.say).toBe("Bilingual开始");
  const first = { type: "chat", agentId: "bilingual", userId: bilingual.newUser(), content: "hello" };
  const { sessionId } = await post("/message", first, "zh");
  expect((await bilingual.get(`/session/${sessionId}`)).body.session).toMatchObject({ locale: "zh" });
});

test("an imported session, and one that a model asks for over MCP, has the language that its request prefers", async () => {
  const Accept = "application/json, text/event-stream";
  const send = async (path: string, type: string, body: string) => {
    const headers = { "Content-Type": type, Accept, "Accept-Language": "zh-CN,zh;q=0.9" };
    return (await bilingual.send("POST", path, headers, body)).text;
  };
  const made = await accepted(bilingual.post("/session/create", { agentId: "bilingual" }));
  const { text } = await bilingual.get(`/session/${made.session.id}/export?format=jsonl`);
  const { session } = JSON.parse(await send("/session/import", "application/x-ndjson", text));
  expect(session.locale).toBe("zh-CN");
  for (const name of ["ask_for_floor", "what_if"]) {
    const params = { name, arguments: { agentId: "bilingual", userId: bilingual.newUser() } };
    const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params };
    const answer = await send("/mcp", "application/json", JSON.stringify(call));
    const { result } = JSON.parse(/^data: (.*)$/m.exec(answer)?.[1] ?? answer);
    expect(result.structuredContent.decision.say).toBe("Bilingual开始");
  }
});

test.each([
  ["granted", "music", "phone", "granted preempted 7"],
  ["rejected", "navigation", "chat", "rejected lower_priority 5"],
  ["queued", "phone", "patient", "queued lower_priority 5"],
])(
  "a request that is %s says so in its answer and on the floor, and a rejected one changes no session",
  async (...row) => {
    const [, asked, challenger, expected] = row;
    const ann = new E2eClient(node);
    const logs = async () => {
      const { holder, paused, queued } = await ann.floor();
      return Promise.all([holder, ...paused, ...queued].map(async (each) => each && [each, await ann.log(each.id)]));
    };
    await accepted(start(ann, asked));
    const before = await logs();
    const { status, body } = await start(ann, challenger);
    const { outcome, reason, rule } = body.decision;
    expect(`${outcome} ${reason} ${rule}`).toBe(expected);
    expect(status).toBe(outcome === "rejected" ? 409 : 200);
    if (outcome === "rejected") expect(await logs()).toEqual(before);
    else expect((await ann.see(body.session.id)).state).toBe(outcome === "granted" ? "active" : "created");
    expect((await ann.floor()).decisions.at(-1)).toEqual(body.decision);
  },
);

test("a request of another user, in another zone, or of a session without a user competes with no other session", async () => {
  const { ann, id } = await hold(node, "phone");
  const before = await ann.log(id);
  const music = { agentId: "music", activate: true };
  const asked = [
    new E2eClient(node).askToCreate(music),
    ann.askToCreate({ ...music, zone: "rear" }),
    node.post("/session/create", music),
  ];
  for (const answer of asked) expect((await accepted(answer)).decision.reason).toBe("floor_free");
  expect(await ann.log(id)).toEqual(before);
});
