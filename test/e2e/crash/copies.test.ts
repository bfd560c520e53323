import { createHash } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import type { SessionId } from "../../../src/protocol/ids.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { type ChildServer, makeInstallation } from "../../support/nodes/child-server.ts";
import { KeptLog, StandingClock } from "../../support/stores/sqlite-place.ts";

/** Long enough to be killed while it is copied. */
const MESSAGES = 1_600;
const IMAGE = Buffer.from("not really a picture");
const HASH = createHash("sha256").update(IMAGE).digest("hex");
const DAYS_MS = 3 * 86_400_000;

/** An exported session: turns of a question with an image and an answer. */
function exported(): string {
  const lines: object[] = [
    { type: "session", version: 1, title: "Long", agentId: "general" },
    { type: "image", hash: HASH, mimeType: "image/png", data: IMAGE.toString("base64") },
  ];
  for (let n = 0; n < MESSAGES; n++) {
    const role = n % 2 === 0 ? "user" : "assistant";
    const images = n === 0 ? { images: [{ hash: HASH }] } : {};
    const message = { type: "message", id: `m${n}`, role, content: `whale ${n}` };
    lines.push({ ...message, status: "success", createdAt: n, ...images });
  }
  lines.push({ type: "end", messages: MESSAGES });
  return lines.map((line) => JSON.stringify(line)).join("\n");
}

async function importSession(node: ChildServer, key: string) {
  const path = `${node.url}/session/import?userId=ann`;
  const headers = { "Content-Type": "application/x-ndjson", "Idempotency-Key": key };
  const response = await fetch(path, { method: "POST", headers, body: exported() });
  return { status: response.status, body: (await response.json()) as { session?: { id: string } } };
}

/** A node on a file, and what the file has. */
async function open() {
  const installation = await makeInstallation({ agents: [{ name: "general" }] });
  const node = await installation.start();
  const db = new DatabaseSync(installation.file, { readOnly: true });
  onTestFinished(() => db.close());
  const count = (sql: string) => Number(db.prepare(`SELECT count(*) AS n FROM ${sql}`).get()!["n"]);
  const rows = () => ({
    messages: count("messages"),
    staged: count("sessions WHERE state = 'staged'"),
    images: count("blobs"),
  });
  return { installation, node, db, count, rows };
}

// What a client uploads and what the store copies are staged in different ways, and so is what replaces its source. The
// last pieces are written shortly before the commit.
test.each([
  ["import begins", 64, (node: ChildServer) => importSession(node, "copy"), false],
  [
    "move is almost done",
    MESSAGES - 192,
    (node: ChildServer, source: string) => node.post(`/session/${source}/move`, { zone: "rear" }, "copy"),
    true,
  ],
])(
  "a node that is killed while a copy by %s leaves all of it or nothing, and a repeat has one result",
  async (_, staged, ask, replaces) => {
    const { installation, node: copying, count, rows } = await open();
    const made = await importSession(copying, "source");
    expect(made.status, JSON.stringify(made.body)).toBe(200);
    const source = made.body.session!.id;
    expect((await copying.post(`/session/${source}/activate`)).status).toBe(200);
    const whole = rows();

    let isOver = false;
    const asking = Promise.resolve(ask(copying, source))
      .catch(() => undefined)
      .finally(() => {
        isOver = true;
      });
    // If the check comes too late, the kill is after the commit: then the copy must be complete.
    const isEarly = () =>
      count("messages WHERE session_key IN (SELECT session_key FROM sessions WHERE state = 'staged')") < staged;
    while (!isOver && isEarly()) await new Promise((resolve) => setImmediate(resolve));
    await copying.kill();
    const node = await installation.start();
    await asking;

    const shown = async (query: string) => {
      const { body } = await node.ask("GET", `/session/list?includeArchived=true&${query}`);
      return (body as unknown as { sessions: { id: string; messageCount: number }[] }).sessions;
    };
    // A session that was committed before the kill is complete.
    for (const query of ["userId=ann", "q=whale"]) {
      const others = (await shown(query)).filter(({ id }) => id !== source);
      expect(others.length).toBeLessThanOrEqual(1);
      for (const { messageCount } of others) expect(messageCount).toBe(MESSAGES);
    }

    const answers = [await ask(node, source), await ask(node, source)];
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    const [id, again] = answers.map(({ body }) => body.session!.id) as [string, string];
    expect(again).toBe(id);
    expect((await shown("userId=ann")).map((session) => session.id).toSorted()).toEqual([source, id].toSorted());
    const lines = (await (await fetch(`${node.url}/session/${id}/export?format=jsonl`)).text()).trimEnd().split("\n");
    const contents = lines.flatMap((line) => (line.startsWith('{"type":"message"') ? [JSON.parse(line).content] : []));
    expect(contents).toEqual(Array.from({ length: MESSAGES }, (_, n) => `whale ${n}`));
    const { session } = (await node.ask("GET", `/session/${source}`)).body;
    expect([session.messageCount, session.state]).toEqual([MESSAGES, replaces ? "archived" : "active"]);

    await node.kill();
    const store = await openSqliteStore({ file: installation.file, clock: new StandingClock(), log: new KeptLog() });
    const { session: kept } = (await store.viewSession(id as SessionId, 0))!;
    const now = Date.now();
    const limits = { now: now + DAYS_MS, receiptsBefore: 0, stagedBefore: now, limit: 1_000 };
    while (await store.prune(limits));
    await store.close();
    expect(rows()).toEqual({ messages: whole.messages + kept.messageCount, staged: 0, images: 2 });
  },
);

test("a node that is killed between the commit of a copy and the end of its source completes it with a repeat", async () => {
  const { installation, db, ...first } = await open();
  let { node } = first;
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
