/** Texts with characters at which some readers of lines split, and which JSON does not escape, in each stream. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, expect, test } from "vitest";
import { scripted } from "../../support/catalogs/e2e-catalog.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { testWith } from "../../support/programs/suites.ts";

const LINE_ENDS = /[\u0085\u2028\u2029]/;
const TEXT = "one\u2028two\u2029three\u0085four";
const teller = scripted("teller", {}, { replies: [{ say: [TEXT] }] });
const node = await NodeUnderTest.start({ agents: [teller], catalog: { default_agent: "teller" } }, afterAll);

const MCP = { Accept: "application/json, text/event-stream" };
const speak = (sessionId: string) => ({ name: "speak", arguments: { sessionId, content: TEXT } });

/** A turn of each door, streamed. */
const STREAMED: Record<string, (sessionId: string) => { path: string; body: object; headers?: object }> = {
  "chat completions": (session) => ({
    path: "/v1/chat/completions",
    body: { model: "teller", stream: true, messages: [{ role: "user", content: TEXT }], metadata: { session } },
  }),
  responses: (conversation) => ({
    path: "/v1/responses",
    body: { model: "teller", stream: true, input: TEXT, conversation },
  }),
  useChat: (id) => ({
    path: "/api/chat",
    body: { id, messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: TEXT }] }] },
  }),
  MCP: (sessionId) => ({
    path: "/mcp",
    headers: MCP,
    body: { jsonrpc: "2.0", id: 1, method: "tools/call", params: speak(sessionId) },
  }),
};

test.each(Object.entries(STREAMED))(
  "a stream of %s has such characters as escapes, names its coding, so that no proxy adds one, and begins with its first event",
  async (_, requestOf) => {
    const { id } = await new E2eClient(node).create("teller");
    const { path, body, headers: own } = requestOf(id);
    const { headers, text } = await node.post(path, body, { headers: { ...own } });
    expect(text).not.toMatch(LINE_ENDS);
    expect(text).toContain(String.raw`one\u2028two\u2029three\u0085four`);
    expect(headers).toMatchObject({
      "content-type": expect.stringMatching(/^text\/event-stream/),
      "content-encoding": "identity",
    });
    expect(text).toMatch(/^(id|data|event):/);
  },
);

test("the streams of a session, a connection and a floor have them as escapes, live and later, and so have exports", async () => {
  const client = new E2eClient(node);
  const { id } = await client.create("teller", { title: TEXT });
  const connection = await client.connect(`&sessionId=${id}`);
  const floor = await node.stream(`${client.floorPath}/events`);
  const ended = ({ type }: { type: string }) => type === "complete";
  // Every reader of a test refuses a frame with such a character.
  const live = await client.talk(id, TEXT);
  for (const events of [live, await client.log(id), await connection.stream.until(ended)]) {
    expect(events.filter(({ type }) => type === "message").map(({ data }) => data.content)).toContain(TEXT);
  }
  await floor.find(({ type, sessionId }) => type === "session_transition" && sessionId === id);
  const lines = await node.get(`/session/${id}/export?format=jsonl`);
  const everything = await node.get(`/user/${client.userId}/export`);
  for (const { status, text } of [lines, everything]) {
    expect(status, text).toBe(200);
    expect(text).not.toMatch(LINE_ENDS);
    expect(text).toContain(String.raw`one\u2028two`);
  }
});

const PROGRAM = `
import json, requests, sys
with requests.get(sys.argv[1], stream=True) as answer:
    for line in answer.iter_lines(decode_unicode=True):
        if line.startswith("data: "):
            event = json.loads(line[6:])
            if event["type"] == "complete": break
            if event["type"] == "message": print(json.dumps(event["data"]["content"]))
`;

testWith(["requests"], "a reader that splits lines at such characters gets each event whole", async (python) => {
  const client = new E2eClient(node);
  const { id } = await client.create("teller");
  await accepted(client.say(id, TEXT));
  const { stdout } = await promisify(execFile)(python, ["-c", PROGRAM, `${node.url}/session/${id}/events`]);
  expect(
    stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line)),
  ).toEqual([TEXT, TEXT]);
});
