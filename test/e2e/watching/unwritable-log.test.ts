import { DatabaseSync } from "node:sqlite";
import { beforeAll, expect } from "vitest";
import { type ChildServer, type Installation, makeInstallation } from "../../support/nodes/child-server.ts";
import { testWith } from "../../support/programs/suites.ts";
import { atEndOfSuite } from "../../support/runner/at-end-of-suite.ts";
import { freePort } from "../../support/servers/free-port.ts";

const CATALOG = { agents: [{ name: "general" }] };
const DROPPED = "interlock_log_lines_dropped_total";
/** A log line about a command that breaks its floor has about 2 KiB; a pipe and its two ends hold less than 1.5 MiB. */
const LINES = 1_200;

/** A file with a floor whose every command writes a log line. */
let wordy: Installation;
const atEnd = atEndOfSuite();
beforeAll(async () => {
  wordy = await makeInstallation(CATALOG, {}, atEnd);
  // Its floors are damaged on purpose.
  wordy.leaveUnchecked();
  const first = await wordy.start();
  await first.post("/session/create", { id: "broken", userId: "ann", activate: true });
  await first.kill();
  const db = new DatabaseSync(wordy.file);
  db.prepare("UPDATE floors SET snapshot = 'no JSON'").run();
  db.close();
});

/** Every answer arrives, also that of another floor. */
async function sayMuch(node: ChildServer, commands: number): Promise<void> {
  for (let left = commands; left > 0; left -= 50) {
    const answers = await Promise.all(Array.from({ length: 50 }, () => node.post("/session/broken/pause", {})));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([500]));
  }
  expect((await node.post("/session/create", { userId: "bob" })).status).toBe(200);
  expect((await node.ask("GET", "/health")).status).toBe(200);
}

testWith(["bash"], "a log on a full disk loses its lines, which are counted, and nothing else is lost", async () => {
  const node = await wordy.start({ redirection: "2>/dev/full" });
  await sayMuch(node, 50);
  expect(await node.metric(DROPPED)).toBeGreaterThanOrEqual(50);
  node.signal("SIGTERM");
  expect(await node.ended).toEqual({ code: 0, signal: null });
});

testWith(["bash"], "a log written to an unread pipe delays no request, and its lost lines are counted", async () => {
  const node = await wordy.start({ isDeaf: true });
  await sayMuch(node, LINES);
  const dropped = await node.metric(DROPPED);
  expect(dropped).toBeGreaterThan(0);
  // When the log is read again, it says how many lines are missing.
  await node.hear(
    ({ msg, lines }) => msg === "lines of the log could not be written" && lines! >= dropped,
    () => sayMuch(node, 50),
  );
  node.signal("SIGTERM");
  expect(await node.ended).toEqual({ code: 0, signal: null });
});

testWith(["bash"], "a log whose reader is gone delays no request", async () => {
  const node = await wordy.start({ redirection: "2> >(true)" });
  await sayMuch(node, 100);
  expect(await node.metric(DROPPED)).toBeGreaterThan(0);
  await node.kill();
});

testWith(["bash"], "a node whose stdout is full still listens", async () => {
  const installation = await makeInstallation(CATALOG);
  const port = await freePort();
  const node = installation.begin({ settings: { PORT: String(port) }, redirection: ">/dev/full" });
  const isThere = () =>
    fetch(`http://127.0.0.1:${port}/health`).then(
      ({ ok }) => ok,
      () => false,
    );
  const ended = node.ended.then(({ code }) => `ended with code ${code}`);
  for (let answer: boolean | string = false; answer !== true; answer = await Promise.race([isThere(), ended])) {
    expect(answer).toBe(false);
  }
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  expect(text).toMatch(new RegExp(`^${DROPPED} 1$`, "m"));
});
