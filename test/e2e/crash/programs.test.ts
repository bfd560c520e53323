import { randomUUID } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { gone, processesWith, running } from "../../support/agents/processes.ts";
import { commandAdapter } from "../../support/agents/programs.ts";
import { create, messagesOf, say } from "../../support/clients/node-client.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { makeInstallation } from "../../support/nodes/child-server.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

/** A node whose agent is a program that ignores SIGTERM and starts another one in a separate process session. */
async function installationWith(tag: string) {
  const adapter = { ...commandAdapter("stubborn"), set: { TEST_TAG: tag } };
  return await makeInstallation({ agents: [{ name: "stubborn", adapter }] });
}

async function begin(installation: Awaited<ReturnType<typeof installationWith>>, tag: string) {
  const server = await installation.start();
  await create(server, "s", "stubborn");
  await say(server, "s");
  await running(tag, 2);
  return server;
}

test("a node that is killed with SIGKILL leaves no process of its agents behind", async () => {
  const tag = `tag-${randomUUID()}`;
  const server = await begin(await installationWith(tag), tag);
  await server.kill();
  await gone(tag);
});

test("an abort ends a run's processes before the next turn starts its own, and a node that shuts down ends those", async () => {
  const tag = `tag-${randomUUID()}`;
  const server = await begin(await installationWith(tag), tag);
  const reader = await SessionReader.of(server, "s");
  await server.post("/message", { type: "abort", sessionId: "s" });
  await reader.has("s", "complete");
  await gone(tag);
  await say(server, "s", "again");
  await running(tag, 2);
  server.signal("SIGTERM");
  await server.ended;
  expect(processesWith(tag)).toEqual([]);
});

test.each(["is held for too long", "is held by a worker that is stopped", "is held by a worker that is killed"])(
  "a program whose run %s runs once: the run is lost, and not repeated when its session resumes",
  async (how) => {
    const folder = await makeFolder();
    onTestFinished(folder.remove);
    const ran = join(folder.folder, "ran");
    const tag = `tag-${randomUUID()}`;
    // It prints nothing that would say that it works.
    const args = ["-c", `echo once >> ${ran}; /bin/sleep 600; true`];
    const adapter = { kind: "command", command: "sh", args, set: { TEST_TAG: tag } };
    const worker = { name: "worker", priority: 20, adapter };
    const installation = await makeInstallation({ agents: [worker, { name: "phone", priority: 90 }] });
    const settings: Record<string, string> = how.endsWith("too long") ? { INTERLOCK_HOLD_TIMEOUT: "1s" } : {};
    let server = await installation.start({ settings });
    await create(server, "s", "worker", { userId: "ann" });
    let reader = await SessionReader.of(server, "s");
    await say(server, "s");
    await running(tag, 2);
    await create(server, "call", "phone", { userId: "ann" });
    if (!how.endsWith("too long")) {
      if (how.endsWith("killed")) await server.kill();
      else server.signal("SIGTERM");
      await server.ended;
      server = await installation.start();
      reader = await SessionReader.of(server, "s");
    }
    await reader.has("s", "error");
    await server.post("/session/call/archive", {});
    const { body } = await server.ask("GET", "/session/s");
    expect(body.session).toMatchObject({ state: "active", activity: "failed" });
    expect(reader.eventsOf("s", "error").map(({ data }) => data.errorCode)).toEqual(["run_lost"]);
    expect(await readFile(ran, "utf8")).toBe("once\n");
  },
);

test("a program gets a secret that its worker has from a file, and finds it in no environment of the worker", async () => {
  const { folder, remove } = await makeFolder();
  onTestFinished(remove);
  const file = join(folder, "key");
  await writeFile(file, "from-a-file-0123456789\n");
  const look = `echo "\${#GIVEN} $(/bin/grep -c from-a-file /proc/$PPID/environ)"`;
  const adapter = { kind: "command", command: "sh", args: ["-c", look], env: ["GIVEN=THE_SECRET"] };
  const installation = await makeInstallation({ agents: [{ name: "looker", adapter }] });
  const answerWith = async (settings: Record<string, string>, id: string) => {
    const server = await installation.start({ settings });
    const warned = server.log.some(({ msg }) => msg.includes("can read these variables"));
    await create(server, id, "looker");
    const reader = await SessionReader.of(server, id);
    await say(server, id);
    await reader.has(id, "complete");
    const said = await messagesOf(server, id);
    await server.kill();
    return [said.at(-1)!.content, warned];
  };
  expect(await answerWith({ THE_SECRET: "from-a-file-0123456789" }, "by-variable")).toEqual(["22 1", true]);
  expect(await answerWith({ THE_SECRET_FILE: file }, "by-file")).toEqual(["22 0", false]);
});
