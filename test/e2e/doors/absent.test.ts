/** Clients that fill every field send null and "" where they mean nothing. */

import { createMCPClient } from "@ai-sdk/mcp";
import { afterAll, expect, test } from "vitest";
import { accepted } from "../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start({}, afterAll);

const floorOf = async (session: string) => (await accepted(node.get(`/session/${session}`))).session.floorId;
const ask = { model: "general", messages: [{ role: "user", content: "hello" }], input: "hello" };

test.each(["/v1/chat/completions", "/v1/responses"])(
  "%s takes empty fields and headers for absent ones",
  async (path) => {
    const empty = ["Session", "User", "Zone", "Workspace", "Played"].map((name) => [`Interlock-${name}`, ""]);
    const nothing = { session: "", user: "", zone: "", workspace: "", played: "" };
    const more = path.endsWith("responses") ? { previous_response_id: "", conversation: "" } : {};
    const { status, text, body } = await node.post(
      path,
      { ...ask, ...more, user: "", metadata: nothing },
      { headers: Object.fromEntries(empty) },
    );
    expect(status, text).toBe(200);
    const { session } = (body as unknown as { metadata: { session: string } }).metadata;
    expect(await floorOf(session)).toBe(`s:${session}`);
    const named = { session: node.newId("named") };
    for (const metadata of [named, { ...named, played: "" }]) {
      const next = await node.post(path, { ...ask, metadata });
      expect(next.status, next.text).toBe(200);
      expect(next.body).not.toHaveProperty("metadata.played");
    }
  },
);

/** A request of which an answer of any form is expected: `post` does not expect that of these errors. */
const sendJson = (path: string, body: object, headers: Record<string, string> = {}) =>
  node.send("POST", path, { "Content-Type": "application/json", ...headers }, JSON.stringify(body));

/** Keys of clients' own, which only look like a place. */
const WORDS = { users: "3", used: "yes", Use: "demo", zones: "2", sessions: "9", work: "x", workplace: "y", tone: "z" };

const MISSPELT: [more: object, headers: Record<string, string>, param: string, meant: string][] = [
  [{ user_id: "ann" }, {}, "user_id", "user"],
  [{ userName: "ann" }, {}, "userName", "user"],
  [{ usr: "ann" }, {}, "usr", "user"],
  [{ metadata: { userId: "ann" } }, {}, "metadata.userId", "user"],
  [{ metadata: { sesion: "kitchen" } }, {}, "metadata.sesion", "session"],
  [{ metadata: { session_id: "kitchen" } }, {}, "metadata.session_id", "session"],
  [{ user: "ann", metadata: { zonee: "rear" } }, {}, "metadata.zonee", "zone"],
  [{}, { "Interlock-User-Id": "ann" }, "headers.user-id", "user"],
];

test.each(["/v1/chat/completions", "/v1/responses"])(
  "%s refuses a misspelt place, and takes the fields of its protocol and a client's own metadata",
  async (path) => {
    for (const [more, headers, param, meant] of MISSPELT) {
      const { status, text } = await sendJson(path, { ...ask, ...more }, headers);
      const error = { message: `${param}: did you mean ${meant}?`, param };
      expect([status, JSON.parse(text)], param).toMatchObject([400, { error }]);
    }
    const own = { phone: "12", use_case: "test", player: "kitchen", ids: "1", application: "a" };
    const fields = {
      safety_identifier: "a",
      prompt_cache_key: "b",
      service_tier: "auto",
      stop: null,
      seed: 1,
      top_p: 1,
    };
    for (const more of [
      { ...fields, metadata: { ...own, ...WORDS } },
      { metadata: { user_id: "x", user: node.newUser() } },
      { user: node.newUser(), metadata: { userId: "x" } },
    ]) {
      const { status, text } = await node.post(path, { ...ask, ...more });
      expect(status, text).toBe(200);
    }
  },
);

test.each(["field", "header"])("an empty user in the metadata does not hide the one in the %s", async (place) => {
  const [userId, session] = [node.newUser(), node.newId("named")];
  const fields = { ...ask, user: place === "field" ? userId : "", metadata: { session, user: "" } };
  const headers = { "Interlock-User": place === "header" ? userId : "" };
  expect((await node.post("/v1/chat/completions", fields, { headers })).status).toBe(200);
  expect(await floorOf(session)).toBe(`u:${userId}`);
});

test("useChat's body may have fields of a page's own, and a misspelt place is refused", async () => {
  const messages = [{ role: "user", parts: [{ type: "text", text: "hello" }] }];
  const { status, text } = await node.post("/api/chat", { id: node.newId("own"), messages, ...WORDS });
  expect(status, text).toBe(200);
  for (const key of ["user", "usrId", "zonee", "workspace_id"]) {
    const { status } = await sendJson("/api/chat", { id: node.newId("misspelt"), messages, [key]: "ann" });
    expect(status, key).toBe(400);
  }
});

test.each(["", null])("useChat and MCP take %j for absent", async (nothing) => {
  const id = node.newId("chat");
  const messages = [{ role: "user", parts: [{ type: "text", text: "hello" }] }];
  const empty = { userId: nothing, zone: nothing, workspaceId: nothing, agentId: nothing };
  const { status, text } = await node.post("/api/chat", { id, messages, ...empty });
  expect(status, text).toBe(200);
  expect(await floorOf(id)).toBe(`s:${id}`);
  const client = await createMCPClient({ transport: { type: "http", url: `${node.url}/mcp` } });
  const tools = await client.tools();
  const call = { toolCallId: "1", messages: [], context: undefined as never };
  const input = { sessionId: nothing, agentId: "general", userId: nothing, zone: nothing };
  expect(await tools["ask_for_floor"]!.execute(input as never, call)).toMatchObject({
    structuredContent: { state: "active" },
  });
  await client.close();
});

test.each([
  ["/v1/chat/completions", { user: 7 }, "user: Invalid input: expected string, received number"],
  ["/v1/chat/completions", { user: "a\nb" }, "user: 1 to 128 characters without control characters"],
  ["/v1/responses", { conversation: "no name" }, "conversation: 1 to 64 of A-Z a-z 0-9 _ -"],
  ["/v1/responses", { input: 7 }, "input: must be text, or a list of items"],
  ["/api/chat", { zone: [] }, "body.zone: Invalid input: expected string, received array"],
])("%s says why it refuses a field that may be empty: %j", async (path, more, reason) => {
  const chat = { id: "c", messages: [{ id: "m", role: "user", parts: [{ type: "text", text: "hello" }] }] };
  const { status, text } = await sendJson(path, { ...(path === "/api/chat" ? chat : ask), ...more });
  const { error } = JSON.parse(text);
  expect(status).toBe(400);
  expect(typeof error === "string" ? error : error.message).toContain(reason);
});
