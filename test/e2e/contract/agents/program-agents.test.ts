import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { gone } from "../../../support/agents/processes.ts";
import { acpAdapter, commandAdapter } from "../../../support/agents/programs.ts";
import { SessionReader } from "../../../support/clients/session-reader.ts";
import { type ChildServer, makeInstallation } from "../../../support/nodes/child-server.ts";
import { atEndOfSuite } from "../../../support/runner/at-end-of-suite.ts";
import { beforeTries } from "../../../support/runner/before-tries.ts";

const tag = `tag-${randomUUID()}`;
const PROGRAMS = {
  tells: commandAdapter("secret"),
  works: commandAdapter("works"),
  command: commandAdapter("flood", "lines"),
  acp: acpAdapter(),
  lines: { ...commandAdapter("nested"), format: "jsonl" },
  missing: { kind: "command", command: "no-such-program-anywhere" },
};
const atEnd = atEndOfSuite();
/** A node whose agents are these programs. */
let server: ChildServer;

beforeTries(async () => {
  const agents = Object.entries(PROGRAMS).map(([name, adapter]) => ({
    name,
    adapter: { ...adapter, env: ["THE_KEY"], set: { TEST_TAG: tag } },
  }));
  const settings = { THE_KEY: "sk-very-secret-1234" };
  server = await (await makeInstallation({ agents }, settings, atEnd)).start();
});

/** A turn of a new session of an agent, with a reader in it. */
async function play(agentId: keyof typeof PROGRAMS, content: string) {
  const id = `${agentId}-${content}`;
  await server.post("/session/create", { id, agentId, userId: id, activate: true });
  const reader = await new SessionReader(`${server.url}/session/${id}/events`).open();
  await server.post("/message", { type: "chat", sessionId: id, content });
  const events = () => reader.transcript.logs.get(id) ?? [];
  await reader.until(() => events().some(({ type }) => type === "complete"));
  await gone(tag);
  const { messages } = (await server.ask("GET", `/session/${id}/messages`)).body;
  const received = reader.stream.events;
  reader.close();
  return { id, events: events(), received, reply: messages.at(-1)! };
}

test("an agent that is a program shows its log, in pages, and its one exit, but never its secrets", async () => {
  const { id, events, received, reply } = await play("tells", "go");
  const path = `/session/${id}/messages/${reply.id}/logs`;
  const { body } = await server.ask("GET", path);
  expect(body).toMatchObject({ logs: [{ stream: "stderr", text: "using [THE_KEY]" }], hasMore: false });
  const [line] = (body as unknown as { logs: { id: string }[] }).logs;
  expect((await server.ask("GET", `${path}?after=${line!.id}`)).body).toMatchObject({ logs: [], hasMore: false });
  const { runId } = reply as unknown as { runId: string };
  expect(received.filter(({ type }) => type === "log").map(({ data, seq }) => ({ ...data, seq }))).toEqual([
    { messageId: reply.id, runId, lines: [line] },
  ]);
  const toldOf = (name: string) =>
    events.flatMap(({ type, data }) => (type === "data" && data["name"] === name ? [data["data"]] : []));
  const command = [process.execPath, "--no-warnings", expect.any(String), "secret"];
  expect(toldOf("start")).toEqual([{ runId, command, cwd: process.cwd() }]);
  expect(toldOf("exit")).toMatchObject([{ runId, code: 3, signal: null }]);
  expect(events.filter(({ type }) => type === "error").map(({ data }) => data)).toMatchObject([
    { errorCode: "provider_unreachable", message: "This agent's program ended with code 3." },
  ]);
  const everything = [JSON.stringify(events), JSON.stringify(reply), JSON.stringify(body), server.stderr].join();
  expect(everything).not.toContain("sk-very-secret");
});

test("readers of a program's session get what it prints as it comes, and once", async () => {
  await server.post("/session/create", { id: "s", agentId: "works", userId: "ann", activate: true });
  const { stream } = await new SessionReader(`${server.url}/session/s/events`).open();
  await server.post("/message", { type: "chat", sessionId: "s", content: "go" });
  const { data } = await stream.next("log");
  expect(data["lines"]).toMatchObject([{ stream: "stderr", text: "begun" }]);
  await server.post("/message", { type: "abort", sessionId: "s" });
  await stream.next("complete");
  const again = (await new SessionReader(`${server.url}/session/s/events`).open()).stream;
  await again.next("complete");
  expect([stream, again].map((each) => each.typesHeard().filter((type) => type === "log").length)).toEqual([1, 0]);
});

test.each(["lines", "acp"] as const)("output that is nested deeply (%s) ends no node", async (name) => {
  const { events, reply } = await play(name, "nests");
  expect(reply).toMatchObject({ content: "Still here.", status: "success" });
  expect(events.filter(({ type }) => type === "error")).toEqual([]);
  expect((await server.ask("GET", "/health")).status).toBe(200);
});

test("an agent that is a program is available where its program is found", async () => {
  const { body } = await server.ask("GET", "/agents");
  const available = Object.keys(PROGRAMS).map((id) => ({ id, available: id !== "missing" }));
  expect(body).toMatchObject({ agents: available });
});
