import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { EventStream } from "../../support/clients/event-stream.ts";
import { type ChildServer, type Installation, makeInstallation } from "../../support/nodes/child-server.ts";
import { atEndOfSuite } from "../../support/runner/at-end-of-suite.ts";
import { beforeTries } from "../../support/runner/before-tries.ts";

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

let installation: Installation;
/** The node on the damaged file. */
let second: ChildServer;
const atEnd = atEndOfSuite();

beforeTries(async () => {
  installation = await makeInstallation(CATALOG, {}, atEnd);
  installation.leaveUnchecked();
  const first = await installation.start();
  for (const userId of ["text", "well"]) {
    const body = { id: userId, agentId: "singer", userId, activate: true };
    expect((await first.post("/session/create", body)).status).toBe(200);
    await first.post("/message", { type: "chat", sessionId: userId, content: "go" });
  }
  for (const id of ["broken", "sound", "holder"]) await first.post("/session/create", { id, userId: "ann" });
  await first.post("/session/holder/activate");
  await first.kill();

  tamper(installation, "UPDATE floors SET snapshot = ? WHERE id = ?", "this is no JSON", "u:text");
  tamper(installation, "UPDATE sessions SET memory = ? WHERE id = ?", "{", "broken");
  second = await installation.start();
});

test("a floor whose row is broken is out of order, and no other floor is", async () => {
  const answer = await second.post("/session/text/pause");
  expect(answer).toMatchObject({ status: 500, body: { errorCode: "internal" } });
  // The cause is not sent to clients.
  expect(JSON.stringify(answer.body)).not.toMatch(/snapshot|JSON|machine/i);
  // Its stored data can still be read.
  expect((await second.ask("GET", "/session/text")).body.session.state).toBe("active");
  const kept = await EventStream.open(`${second.url}/session/text/events`);
  onTestFinished(() => kept.cut());
  await kept.next("message");
  const logged = () => second.log.filter(({ msg }) => msg === "a command broke its floor");
  await expect.poll(() => new Set(logged().map(({ floorId }) => floorId))).toEqual(new Set(["u:text"]));
  expect(await second.metric('interlock_floors_broken_total{what="snapshot"}')).toBeGreaterThanOrEqual(1);

  // Other floors work: an older one, whose run continues, and a new one.
  const stream = await EventStream.open(`${second.url}/session/well/events`);
  onTestFinished(() => stream.cut());
  await stream.until(({ events }) => events.some(({ data }) => data.attempt === 2 || data["streaming"] === true));
  expect((await second.post("/session/well/pause")).body.session.state).toBe("paused");
  const fresh = await second.post("/session/create", { agentId: "general", userId: "new", activate: true });
  expect(fresh.body.session.state).toBe("active");
  expect((await second.ask("GET", "/ready")).status).toBe(200);
});

test("a broken floor is found in the log by the answer's traceId, and from there by its command, floor and session", async () => {
  const { status, body } = await second.post("/session/text/pause", {}, "my-key");
  expect(status).toBe(500);
  const lines = (): object[] => second.log;
  const { traceId } = body as unknown as { traceId: string };
  const asked = () => lines().filter((line) => "traceId" in line && line.traceId === traceId);
  await expect.poll(asked).toEqual([expect.objectContaining({ msg: "a request failed", commandId: "my-key" })]);
  expect(lines()).toContainEqual(
    expect.objectContaining({
      msg: "a command broke its floor",
      command: "session.pause",
      commandId: "my-key",
      floorId: "u:text",
      sessionId: "text",
    }),
  );
});

test("a session whose row is broken does not affect others on its floor", async () => {
  const answers = await Promise.all(["broken", "sound", "holder"].map((id) => second.post(`/session/${id}/archive`)));
  expect(answers.map(({ status }) => status)).toEqual([500, 200, 200]);
  expect((await second.ask("GET", "/floor/u%3Aann")).body.holder).toBeNull();
});
