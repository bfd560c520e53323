import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { makeInstallation } from "../../support/nodes/child-server.ts";
import { copyingSuite } from "../../support/nodes/copying-nodes.ts";
import { KeptLog, StandingClock } from "../../support/stores/sqlite-place.ts";

// What a client uploads and what the store copies are staged in different ways, and so is what replaces its source: a
// rollback and an edit are made as a move is, but for the messages that they leave out.
const CASES = [
  ["fork", "begins"],
  ["import", "begins"],
  ["move", "is almost done"],
] as const;

copyingSuite("a node", CASES, async () => {
  const installation = await makeInstallation({ agents: [{ name: "general" }] });
  let node = await installation.start();
  const db = new DatabaseSync(installation.file, { readOnly: true });
  onTestFinished(() => db.close());
  const count = (sql: string) => Number(db.prepare(`SELECT count(*) AS n FROM ${sql}`).get()!["n"]);
  return {
    copying: node,
    staged: () => count("messages WHERE session_key IN (SELECT session_key FROM sessions WHERE state = 'staged')"),
    async kill() {
      await node.kill();
      node = await installation.start();
      return node;
    },
    async openStore() {
      await node.kill();
      return await openSqliteStore({ file: installation.file, clock: new StandingClock(), log: new KeptLog() });
    },
    rows: async () => ({
      messages: count("messages"),
      staged: count("sessions WHERE state = 'staged'"),
      images: count("blobs"),
    }),
  };
});

test("a node that is killed between the commit of a copy and the end of its source completes it with a repeat", async () => {
  const installation = await makeInstallation({ agents: [{ name: "general" }] });
  let node = await installation.start();
  const db = new DatabaseSync(installation.file, { readOnly: true });
  onTestFinished(() => db.close());
  const copyOf = db.prepare("SELECT id FROM sessions WHERE json_extract(view, '$.origin.sessionId') = ?");
  const stateOf = db.prepare("SELECT state FROM sessions WHERE id = ?");
  for (let attempt = 0; ; attempt += 1) {
    expect(attempt, "no kill came between the two commits").toBeLessThan(50);
    // A session without a user has its own floor, and so has its copy: two commits.
    const source = `source-${attempt}`;
    await node.post("/session/create", { id: source, activate: true });
    await node.post("/message", { type: "chat", sessionId: source, content: "hello" });
    const back = () => node.post(`/session/${source}/rollback`, { turns: 1 }, `back-${attempt}`);
    const asking = back().catch(() => undefined);
    // The request is sent; from here on this process only observes.
    for (let turns = 0; turns < 5; turns += 1) await new Promise((resolve) => setImmediate(resolve));
    const until = Date.now() + 1_000;
    while (!copyOf.get(source) && Date.now() < until);
    process.kill(node.pid, "SIGKILL");
    await asking;
    await node.ended;
    const isBetween = copyOf.get(source) !== undefined && stateOf.get(source)!["state"] === "active";
    node = await installation.start();
    if (!isBetween) continue;
    const copy = String(copyOf.get(source)!["id"]);
    expect((await back()).body.session).toMatchObject({ id: copy, messageCount: 0 });
    const { session } = (await node.ask("GET", `/session/${source}`)).body;
    expect(session).toMatchObject({ state: "archived", replacedBy: copy });
    return;
  }
});
