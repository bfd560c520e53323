import { afterAll, expect, onTestFinished, test } from "vitest";
import { accepted, E2eClient } from "../../../support/clients/e2e-client.ts";
import { headOf, RawSocket } from "../../../support/networks/raw-socket.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

/** Clients that close their side of a connection behind a request, as `nc -N` and some health checks do. */

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

async function open(bytes: string): Promise<RawSocket> {
  const socket = await RawSocket.open(node.url);
  onTestFinished(() => socket.destroy());
  await socket.send(bytes);
  return socket;
}

/** All that comes for these bytes, behind which the client closes its side. */
const say = async (bytes: string) => await (await open(bytes)).halfClose();

const post = (path: string, value: object, headers: Record<string, string> = {}) => {
  const body = JSON.stringify(value);
  const length = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) };
  return `${headOf("POST", path, { ...length, ...headers })}${body}`;
};

test("a probe whose client closes its side is answered", async () => {
  expect(await say(headOf("GET", "/ready"))).toMatch(/^HTTP\/1\.1 200 OK\r\n.*"status":"ok"/s);
  expect(await say("GET /health HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")).toMatch(
    /^HTTP\/1\.1 200 OK\r\n.*"status":"ok"/s,
  );
});

test("a command whose client closes its side is carried out and answered, also one with a chunked body", async () => {
  const { id } = await new E2eClient(node).create("general");
  const title = JSON.stringify({ title: "renamed" });
  const head = headOf("PATCH", `/session/${id}`, {
    "Content-Type": "application/json",
    "Transfer-Encoding": "chunked",
  });
  const chunked = `${head}${title.length.toString(16)}\r\n${title}\r\n0\r\n\r\n`;
  for (const bytes of [chunked, post(`/session/${id}/archive`, {})])
    expect(await say(bytes)).toMatch(/^HTTP\/1\.1 200 /);
  expect((await accepted(node.get(`/session/${id}`))).session).toMatchObject({ title: "renamed", state: "archived" });
});

test("a request that is not whole when its client closes its side is refused", async () => {
  const text = await say(post("/session/create", { agentId: "music" }).slice(0, -1));
  expect(text).toMatch(/^HTTP\/1\.1 400 .*"errorCode":"bad_request"/s);
});

test("an event stream ends when its client closes its side, before or after it began", async () => {
  const early = await say(headOf("GET", "/events"));
  expect(early).toMatch(/^(HTTP\/1\.1 200 OK\r\n.*text\/event-stream.*)?$/is);
  const reader = await open(headOf("GET", "/events"));
  await reader.until(/"agent_list"/);
  const count = async () => Number(/^interlock_connections\S* (\d+)/m.exec((await node.get("/metrics")).text)![1]);
  expect(await count()).toBe(1);
  await reader.halfClose();
  await expect.poll(count).toBe(0);
});

test.each([false, true])(
  "a run is aborted when the client of OpenAI's API closes its side (stream: %s)",
  async (stream) => {
    const { id } = await new E2eClient(node).create("general");
    const log = await node.stream(`/session/${id}/events`);
    const messages = [{ role: "user", content: "play" }];
    const client = await open(
      post("/v1/chat/completions", { model: "general", messages, stream, metadata: { session: id } }),
    );
    await log.findState(id, "active.running");
    expect(await client.halfClose()).not.toContain("[DONE]");
    expect((await log.find("complete")).data).toMatchObject({ cancelled: true });
  },
);
