import { afterAll, describe, expect, test } from "vitest";
import { accepted, refused } from "../../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

/** A call of a tool of the MCP door, and its result. */
async function callTool(name: string, args: object) {
  const headers = { Accept: "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18" };
  const params = { name, arguments: args };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
  const answer = await node.send("POST", "/mcp", { ...headers, "Content-Type": "application/json" }, body);
  const text = answer.text.includes("data: ") ? /data: (.*)/.exec(answer.text)![1]! : answer.text;
  return (JSON.parse(text) as { result: { structuredContent: Record<string, unknown> } }).result.structuredContent;
}

const CHAT = { type: "chat", content: "hello" };
const COMPLETION = { model: "general", messages: [{ role: "user", content: "hello" }] };
const UI = { id: "kitchen", messages: [{ id: "m", role: "user", parts: [{ type: "text", text: "hello" }] }] };

describe("a key that is nearly a known one", () => {
  test.each<[string, object, string, string]>([
    ["/session/create", {}, "user_id", "userId"],
    ["/session/create", {}, "userID", "userId"],
    ["/session/create", {}, "user", "userId"],
    ["/session/create", {}, "agent", "agentId"],
    ["/session/create", {}, "workspace_id", "workspaceId"],
    ["/session/load", {}, "session_id", "sessionId"],
    ["/message", CHAT, "session_id", "sessionId"],
    ["/message", CHAT, "userid", "userId"],
    ["/message", { type: "abort" }, "session", "sessionId"],
    ["/api/chat", UI, "user_id", "userId"],
    ["/v1/chat/completions", COMPLETION, "meta_data", "metadata"],
    ["/floor/u%3Aann/what-if", {}, "agent", "agentId"],
  ])("a body of %s with %j and %s is 400, and says %s", async (path, body, key, meant) => {
    // Some doors have errors of another form, which `post` does not expect.
    const sent = JSON.stringify({ ...body, [key]: "ann" });
    const { status, text } = await node.send("POST", path, { "Content-Type": "application/json" }, sent);
    expect(status).toBe(400);
    expect(text).toContain(`did you mean ${meant}?`);
  });

  test("a query with such a key is 400 too", async () => {
    const { error, issues } = await refused(node.get("/session/list?user_id=ann"));
    expect({ error, issues }).toEqual({
      error: "There is no user_id; did you mean userId?",
      issues: [{ path: "querystring.user_id", message: "did you mean userId?" }],
    });
  });

  test("a tool of the MCP door refuses such an argument", async () => {
    const { error } = await callTool("ask_for_floor", { agentId: "general", user_id: "ann" });
    expect(error).toMatchObject({ code: "bad_request", message: "There is no user_id; did you mean userId?" });
  });

  test.each([
    ["a key that is like no other", { priority: 100, colour: "red", _: 1, yoloMode: true }],
    ["a misspelt key beside the right one", { userId: "ann", user: { name: "Ann" }, agent: "x", agentId: "general" }],
  ])("%s is ignored", async (_, body) => {
    await accepted(node.post("/session/create", body));
  });
});

describe("a session without a user", () => {
  const NOTICE = /a floor of its own: it competes with no other session/;

  test("the answer of a create without a userId says that the session competes with no other", async () => {
    const alone = await accepted(node.post("/session/create", {}));
    expect(alone).toMatchObject({ notice: expect.stringMatching(NOTICE) });
    expect(await accepted(node.post("/session/create", { userId: node.newUser() }))).not.toHaveProperty("notice");
    const key = node.newId("alone");
    const message = { type: "chat", content: "hello" };
    const said = await accepted(node.post("/message", message, { key }));
    expect(said).toMatchObject({ notice: expect.stringMatching(NOTICE) });
    expect(await accepted(node.post("/message", message, { key }))).toEqual(said);
    const others = [
      { ...message, userId: node.newUser() },
      { type: "pause", sessionId: said.sessionId },
    ];
    for (const other of others) expect(await accepted(node.post("/message", other))).not.toHaveProperty("notice");
    expect(await callTool("ask_for_floor", { agentId: "general" })).toMatchObject({
      notice: expect.stringMatching(NOTICE),
    });
  });

  test.each(["/v1/chat/completions", "/v1/responses"])("the user of %s is the user of the session", async (path) => {
    const user = node.newUser();
    const content = path.endsWith("responses") ? { input: "hello" } : { messages: COMPLETION.messages };
    const answer = await node.post(path, { model: "general", ...content, user });
    const { metadata } = answer.body as unknown as { metadata: { session: string } };
    const { session } = await accepted(node.get(`/session/${metadata.session}`));
    expect(session).toMatchObject({ userId: user, floorId: `u:${user}` });
  });
});
