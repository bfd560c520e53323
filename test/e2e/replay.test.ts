import { readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { E2E_AGENTS, WITH_MUSIC_BENEATH } from "../support/catalogs/e2e-catalog.ts";
import { writeTemporary } from "../support/clients/callers.ts";
import { printedBy, runHere } from "../support/clients/command-line.ts";
import { accepted, E2eClient, refused } from "../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../support/nodes/node-under-test.ts";

const catalogue = (agents: readonly object[]) => JSON.stringify({ agents, default_agent: "general" });
const FORMER = catalogue(E2E_AGENTS);
const LATTER = catalogue(WITH_MUSIC_BENEATH);

let node: NodeUnderTest;
let ann: E2eClient;
beforeAll(async () => {
  node = await NodeUnderTest.start();
  ann = new E2eClient(node, "ann");
  await liveADay();
});
afterAll(() => node.stop());

const until = (isSo: () => Promise<boolean>) => vi.waitUntil(isSo, { timeout: 30_000 });

/** Requests, refusals, turns, questions, pauses, interruptions and stops; in the middle another catalogue. */
async function liveADay(): Promise<void> {
  const music = await ann.hold("music");
  await ann.talk(music.id, "hello");
  await accepted(ann.say(music.id, "play on"));
  const call = await ann.hold("phone");
  await refused(node.post("/session/create", { userId: "ann", agentId: "weather", activate: true }));
  await accepted(ann.on(call.id, "archive"));
  await until(async () => (await ann.see(music.id)).state === "active");
  await accepted(ann.send({ type: "abort", sessionId: music.id }));
  const general = await ann.hold("general");
  await accepted(ann.say(general.id, "ask me"));
  await until(async () => (await ann.see(general.id)).activity === "waiting");
  const question = (await ann.log(general.id)).find(({ type }) => type === "user_question_request");
  const answer = { type: "user_question_response", sessionId: general.id, requestId: question!.requestId };
  await accepted(ann.send({ ...answer, response: "a" }));
  await until(async () => (await ann.see(general.id)).activity === "idle");
  await accepted(ann.on(general.id, "pause"));
  const { hash } = (await node.get("/ready")).body.catalog;
  await node.writeCatalog(LATTER);
  await until(async () => (await node.get("/ready")).body.catalog.hash !== hash);
  const other = await ann.hold("phone");
  expect((await ann.see(music.id)).state).toBe("ducked");
  await accepted(ann.on(other.id, "stop"));
  await accepted(node.put("/floor/u%3Aann/flags", { emergency: true }));
  await accepted(node.post("/floor/u%3Aann/stop-all"));
}

async function exportLog(...words: string[]): Promise<{ file: string; stderr: string }> {
  const file = join(tmpdir(), `interlock-log-${process.pid}-${words.length}-${Date.now()}.jsonl`);
  onTestFinished(() => rm(file, { force: true }));
  const { code, stderr } = await runHere(["export", file, "--logs", "--url", node.url, ...words]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringMatching(/^\d+ floors?, \d+ events?\n$/) });
  return { file, stderr };
}

test("the log of a node replays without a difference with the catalogues that it names", async () => {
  const [former, latter] = [
    await writeTemporary("former.yaml", FORMER, onTestFinished),
    await writeTemporary("latter.yaml", LATTER, onTestFinished),
  ];
  const { file } = await exportLog("--floor", "u:ann");
  const printed = printedBy(
    await runHere(["replay", file, "--catalogue", latter, "--former", former, latter, "--json"]),
  );
  const report = JSON.parse(printed);
  expect(report).toMatchObject({ floors: 1, kinds: [], unknown: 0, reloads: 1 });
  expect(report.requests).toBe(5);
  const all = JSON.parse(printedBy(await runHere(["replay", file, "--catalogue", latter, "--json"])));
  expect(all.kinds).toContainEqual(
    expect.objectContaining({ agentId: "music", before: "paused for phone", after: "ducked -14 dB for phone" }),
  );
});

test("an exported log has nothing of what was said, and begins where --since says", async () => {
  const { file } = await exportLog();
  const text = await readFile(file, "utf8");
  expect(text).not.toMatch(/hello|play on|ask me|Which one/);
  const [log] = text.split("\n").map((line) => line && JSON.parse(line));
  expect(log).toMatchObject({ format: "interlock-floor-log", version: 1, floorId: "u:ann" });
  const { stderr } = await exportLog("--since", "0ms");
  expect(stderr).toBe("0 floors, 0 events\n");
});

test("an export never overwrites a file, and says what it needs", async () => {
  const file = await writeTemporary("log.jsonl", "kept", onTestFinished);
  const exists = await runHere(["export", file, "--logs", "--url", node.url]);
  expect([exists.code, exists.stderr]).toEqual([1, expect.stringContaining("exists: name a new file")]);
  expect(await readFile(file, "utf8")).toBe("kept");
  expect((await runHere(["export", file, "--url", node.url])).code).toBe(2);
  expect((await runHere(["export", "--logs", "--floor", "nobody"])).code).toBe(2);
});
