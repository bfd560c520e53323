import OpenAI, { AuthenticationError, PermissionDeniedError, RateLimitError } from "openai";
import { expect, test } from "vitest";
import { keyOf, startGuarded } from "../../support/clients/callers.ts";

/** Authorisation at the doors, with OpenAI's own client and with plain requests of pages. */
const PAGE = "https://page.example";
const { node } = await startGuarded({
  settings: { INTERLOCK_ORIGINS: PAGE, INTERLOCK_RATE_LIMITS: "owner=100/1h,address=off,refused=off" },
});

const clientOf = (name: string) => new OpenAI({ baseURL: `${node.url}/v1`, apiKey: keyOf(name) });
const ask = (name: string, content: string, metadata: Record<string, string> = {}, more = {}) =>
  clientOf(name).chat.completions.create({
    model: "general",
    messages: [{ role: "user", content }],
    metadata,
    ...more,
  });
const bearer = (name: string) => ({ Authorization: `Bearer ${keyOf(name)}` });

test("a caller without a valid key gets OpenAI's error", async () => {
  await expect(ask("nobody", "hello")).rejects.toThrow(AuthenticationError);
  await expect(Array.fromAsync(clientOf("nobody").models.list())).rejects.toThrow(AuthenticationError);
  const { status, body } = await node.post("/api/chat", { id: "x", messages: [{}] });
  expect([status, body.errorCode]).toEqual([401, "unauthorized"]);
});

test("a caller that names another user's session gets one of its own", async () => {
  const sessionOf = (answer: object) => (answer as { metadata: { session: string } }).metadata.session;
  const [anns, bobs] = await Promise.all(["ann", "bob"].map((name) => ask(name, "hello", { session: "kitchen" })));
  expect(sessionOf(anns!)).not.toBe(sessionOf(bobs!));
  const again = await ask("ann", "nod", { session: "kitchen" });
  expect(sessionOf(again)).toBe(sessionOf(anns!));
  const seen = await node.get(`/session/${sessionOf(anns!)}`, { headers: bearer("bob") });
  expect(seen.status).toBe(404);
});

test("a caller may not act for another user", async () => {
  await expect(ask("ann", "hello", { user: "bob" })).rejects.toThrow(PermissionDeniedError);
  const named = (user: string) => ask("ann", "hello", {}, { user });
  await expect(named("bob")).rejects.toThrow(/leave the user out, or name yourself/);
  expect((await named("ann")).choices[0]!.finish_reason).toBe("stop");
});

test("a caller cannot answer, resume, continue or end another user's session", async () => {
  const asked = await ask("ann", "ask", { session: "asking" });
  const [call] = asked.choices[0]!.message.tool_calls!;
  const answering = clientOf("bob").chat.completions.create({
    model: "general",
    messages: [{ role: "tool", tool_call_id: call!.id, content: "b" }],
  });
  await expect(answering).rejects.toMatchObject({ status: 404, code: "session_not_found" });
  const session = call!.id.split(".")[1]!;
  expect((await node.get(`/api/chat/${session}/stream`, { headers: bearer("bob") })).status).toBe(204);
  const ending = await node.delete(`/api/chat/${session}/stream`, { headers: bearer("bob") });
  expect(ending.body).toEqual({ success: true, aborted: false });
  const previous = { previous_response_id: `resp_${session}.run` };
  const continuing = clientOf("bob").responses.create({ model: "general", input: "hello", ...previous });
  await expect(continuing).rejects.toMatchObject({ status: 404, code: "previous_response_not_found" });
  const ended = await node.delete(`/api/chat/${session}/stream`, { headers: bearer("ann") });
  expect(ended.body).toEqual({ success: true, aborted: true });
});

const preflight = (origin: string, path: string, headers: string) =>
  node.send("OPTIONS", path, {
    Origin: origin,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": headers,
  });

test("a page of a listed origin may send what these clients send, whatever that is", async () => {
  const sent = "authorization, content-type, interlock-played, openai-organization, openai-project, x-of-tomorrow";
  const { status, headers } = await preflight(PAGE, "/v1/chat/completions", sent);
  expect([status, headers["access-control-allow-headers"]]).toEqual([204, sent]);
  expect(headers.vary).toContain("Access-Control-Request-Headers");
  const messages = [{ role: "user", parts: [{ type: "text", text: "hello" }] }];
  const body = JSON.stringify({ id: "paged", messages });
  const type = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) };
  const answer = await node.send("POST", "/api/chat", { Origin: PAGE, ...type, ...bearer("ann") }, body);
  expect([answer.status, answer.headers["access-control-allow-origin"]]).toEqual([200, PAGE]);
  expect(answer.text).toContain("Hello ");
});

test("a page of a listed origin reads the headers by which answers name their run, and an MCP client", async () => {
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "x", version: "1" } };
  const message = JSON.stringify({ jsonrpc: "2.0", id: 0, method: "initialize", params });
  const types = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  const { headers } = await node.send("POST", "/mcp", { Origin: PAGE, ...types, ...bearer("ann") }, message);
  expect(headers["mcp-session-id"]).toBeDefined();
  const exposed = headers["access-control-expose-headers"]!.split(", ");
  expect(exposed).toEqual(expect.arrayContaining(["interlock-session", "interlock-run", "mcp-session-id"]));
});

test("a page of any other origin may do nothing", async () => {
  for (const path of ["/v1/chat/completions", "/v1/responses", "/api/chat", "/mcp"]) {
    const headers = { Origin: "https://evil.example", "Content-Type": "application/json", ...bearer("ann") };
    expect((await node.send("POST", path, headers, "{}")).status, path).toBe(403);
  }
});

test("a caller above the rate limit gets the time after which it may retry", async () => {
  const hasty = new OpenAI({ baseURL: `${node.url}/v1`, apiKey: keyOf("ops"), maxRetries: 0 });
  let refusal: unknown;
  for (let count = 0; count <= 100 && !refusal; count++) {
    await hasty.models.list().catch((error) => {
      refusal = error;
    });
  }
  expect(refusal).toBeInstanceOf(RateLimitError);
  const { code, headers } = refusal as RateLimitError;
  expect(code).toBe("too_many_requests");
  expect(headers.get("x-should-retry")).toBe("true");
  expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
});
