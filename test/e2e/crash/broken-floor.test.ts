import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { EventStream } from "../../support/clients/event-stream.ts";
import { type Installation, makeInstallation } from "../../support/nodes/child-server.ts";

const CATALOG = {
  agents: [
    { name: "general" },
    { name: "singer", adapter: { kind: "scripted", replies: [{ say: ["la ", "li "], delay: "1h" }] } },
  ],
};

/** Change a row of the file while no node uses it. */
function tamper(installation: Installation, sql: string, ...values: string[]): void {
  const db = new DatabaseSync(installation.file);
  expect(db.prepare(sql).run(...values).changes).toBe(1);
  db.close();
}

function snapshotOf(installation: Installation, floorId: string): string {
  const db = new DatabaseSync(installation.file);
  const row = db.prepare("SELECT snapshot FROM floors WHERE id = ?").get(floorId) as { snapshot: string };
  db.close();
  return row.snapshot;
}

test("floors whose rows are broken or foreign are out of order, and no other floor is", async () => {
  const installation = await makeInstallation(CATALOG);
  installation.leaveUnchecked();
  const first = await installation.start();
  const users = ["text", "alien", "hollow", "removed", "children", "well"];
  for (const userId of users) {
    const body = { id: userId, agentId: "singer", userId, activate: true };
    expect((await first.post("/session/create", body)).status).toBe(200);
    await first.post("/message", { type: "chat", sessionId: userId, content: "go" });
  }
  await first.kill();
  const whole = JSON.parse(snapshotOf(installation, "u:well"));
  const broken: Record<string, unknown> = {
    text: "this is no JSON",
    alien: { ...whole, machine: "toaster" },
    hollow: { ...whole, actors: {} },
    // A state that a later release removed.
    removed: { ...whole, actors: { ...whole.actors, value: "levitating" } },
    children: { ...whole, actors: { ...whole.actors, children: { well: { snapshot: "?", src: "session" } } } },
  };
  for (const [userId, snapshot] of Object.entries(broken)) {
    const text = typeof snapshot === "string" ? snapshot : JSON.stringify(snapshot);
    tamper(installation, "UPDATE floors SET snapshot = ? WHERE id = ?", text, `u:${userId}`);
  }

  const second = await installation.start();
  for (const userId of Object.keys(broken)) {
    const answer = await second.post(`/session/${userId}/pause`);
    expect(answer, userId).toMatchObject({ status: 500, body: { errorCode: "internal" } });
    // The cause is not sent to clients.
    expect(JSON.stringify(answer.body)).not.toMatch(/snapshot|JSON|machine/i);
    // Its stored data can still be read.
    expect((await second.ask("GET", `/session/${userId}`)).body.session.state).toBe("active");
    const stream = await EventStream.open(`${second.url}/session/${userId}/events`);
    onTestFinished(() => stream.cut());
    await stream.next("message");
  }
  const logged = second.log.filter(({ msg }) => msg === "a command broke its floor");
  expect(new Set(logged.map(({ floorId }) => floorId))).toEqual(new Set(Object.keys(broken).map((id) => `u:${id}`)));
  expect(await second.metric('interlock_floors_broken_total{what="snapshot"}')).toBeGreaterThanOrEqual(5);

  // Other floors work: an older one, whose run continues, and a new one.
  const stream = await EventStream.open(`${second.url}/session/well/events`);
  onTestFinished(() => stream.cut());
  await stream.until(({ events }) => events.some(({ data }) => data.attempt === 2 || data["streaming"] === true));
  expect((await second.post("/session/well/pause")).body.session.state).toBe("paused");
  const fresh = await second.post("/session/create", { agentId: "general", userId: "new", activate: true });
  expect(fresh.body.session.state).toBe("active");
  expect((await second.ask("GET", "/ready")).status).toBe(200);
});

test("a session whose row is broken does not affect others on its floor", async () => {
  const installation = await makeInstallation(CATALOG);
  installation.leaveUnchecked();
  const first = await installation.start();
  for (const id of ["broken", "sound", "holder"]) await first.post("/session/create", { id, userId: "ann" });
  await first.post("/session/holder/activate");
  await first.kill();
  tamper(installation, "UPDATE sessions SET memory = ? WHERE id = ?", "{", "broken");
  const second = await installation.start();
  const answers = await Promise.all(["broken", "sound", "holder"].map((id) => second.post(`/session/${id}/archive`)));
  expect(answers.map(({ status }) => status)).toEqual([500, 200, 200]);
  expect((await second.ask("GET", "/floor/u%3Aann")).body.holder).toBeNull();
});

test("a floor that a newer release wrote is left to that release", async () => {
  const installation = await makeInstallation(CATALOG);
  installation.leaveUnchecked();
  const first = await installation.start();
  await first.post("/session/create", { id: "a", userId: "ann", activate: true });
  await first.kill();
  const before = snapshotOf(installation, "u:ann");
  tamper(installation, "UPDATE floors SET format = 99 WHERE id = ?", "u:ann");
  const second = await installation.start();
  expect(await second.post("/session/a/pause", {}, "key-1")).toMatchObject({
    status: 503,
    body: { errorCode: "unavailable", retryable: true, commandId: "key-1" },
  });
  expect((await second.ask("GET", "/session/a")).body.session.state).toBe("active");
  await second.kill();
  expect(snapshotOf(installation, "u:ann")).toBe(before);
});
