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

test("an abort ends a run's processes before the next turn starts its own, and a node that shuts down ends those", async () => {
  const tag = `tag-${randomUUID()}`;
  // A program that ignores SIGTERM and starts another one in a separate process session.
  const adapter = { ...commandAdapter("stubborn"), set: { TEST_TAG: tag } };
  const installation = await makeInstallation({ agents: [{ name: "stubborn", adapter }] });
  const server = await installation.start();
  await create(server, "s", "stubborn");
  await say(server, "s");
  await running(tag, 2);
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

test.each(["is held for too long", "is held by a worker that is killed"])(
  "a program whose run %s runs once, and leaves no process: the run is lost, and not repeated when its session resumes",
  async (how) => {
    const folder = await makeFolder();
    onTestFinished(folder.remove);
    const ran = join(folder.folder, "ran");
    const tag = `tag-${randomUUID()}`;
    // It prints nothing that would say that it works, and starts a process in another process session.
    const args = ["-c", `echo once >> ${ran}; /usr/bin/setsid /bin/sleep 600; true`];
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
      await server.kill();
      await gone(tag);
      server = await installation.start();
      reader = await SessionReader.of(server, "s");
    }
    await reader.has("s", "error");
    await gone(tag);
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
  const look = `echo "\${#GIVEN} $(/bin/grep -c "$GIVEN" /proc/$PPID/environ)"`;
  const looks = (name: string, secret: string) => ({
    name,
    adapter: { kind: "command", command: "sh", args: ["-c", look], env: [`GIVEN=${secret}`] },
  });
  const installation = await makeInstallation({ agents: [looks("variable", "SECRET_A"), looks("file", "SECRET_B")] });
  const settings = { SECRET_A: "from-a-variable-0123456789", SECRET_B_FILE: file };
  const server = await installation.start({ settings });
  const isWarning = ({ msg }: { msg: string }) => msg.includes("can read these variables");
  await server.logged(isWarning);
  expect(server.log.filter(isWarning)).toMatchObject([{ variables: ["SECRET_A"] }]);
  for (const [agent, answer] of [
    ["variable", "26 1"],
    ["file", "22 0"],
  ] as const) {
    await create(server, agent, agent);
    const reader = await SessionReader.of(server, agent);
    await say(server, agent);
    await reader.has(agent, "complete");
    expect((await messagesOf(server, agent)).at(-1)!.content).toBe(answer);
  }
});
