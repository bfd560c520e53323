import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { gone, processesWith, running } from "../../support/agents/processes.ts";
import { commandAdapter } from "../../support/agents/programs.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { makeInstallation } from "../../support/nodes/child-server.ts";

/** A node whose agent is a program that ignores SIGTERM and starts another one in a separate process session. */
async function installationWith(tag: string) {
  const adapter = { ...commandAdapter("stubborn"), set: { TEST_TAG: tag } };
  return await makeInstallation({ agents: [{ name: "stubborn", adapter }] });
}

async function begin(installation: Awaited<ReturnType<typeof installationWith>>, tag: string) {
  const server = await installation.start();
  await server.post("/session/create", { id: "s", activate: true });
  await server.post("/message", { type: "chat", sessionId: "s", content: "go" });
  await running(tag, 2);
  return server;
}

test("a node that is killed with SIGKILL leaves no process of its agents behind", async () => {
  const tag = `tag-${randomUUID()}`;
  const server = await begin(await installationWith(tag), tag);
  await server.kill();
  await gone(tag);
});

test("a node that shuts down ends its agents' processes before it exits", async () => {
  const tag = `tag-${randomUUID()}`;
  const server = await begin(await installationWith(tag), tag);
  server.signal("SIGTERM");
  await server.ended;
  expect(processesWith(tag)).toEqual([]);
});

test("an abort ends a run's processes, and the session takes the next turn when they are gone", async () => {
  const tag = `tag-${randomUUID()}`;
  const server = await begin(await installationWith(tag), tag);
  const reader = await new SessionReader(`${server.url}/session/s/events`).open();
  await server.post("/message", { type: "abort", sessionId: "s" });
  await reader.until(() => reader.transcript.logs.get("s")?.some(({ type }) => type === "complete") ?? false);
  await gone(tag);
  await server.post("/message", { type: "chat", sessionId: "s", content: "again" });
  await running(tag, 2);
});
