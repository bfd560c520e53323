import { beforeAll, describe, expect, test } from "vitest";
import { type Caller, startGuarded } from "../../../support/clients/callers.ts";
import { accepted, refused } from "../../../support/clients/e2e-client.ts";
import type { Answer } from "../../../support/nodes/node-under-test.ts";
import { describeWith } from "../../../support/programs/suites.ts";
import { atEndOfSuite } from "../../../support/runner/at-end-of-suite.ts";
import { POSTGRES } from "../../../support/servers/postgres-server.ts";
import { REDIS } from "../../../support/servers/redis-server.ts";
import { serverOf } from "../../../support/servers/shared-server.ts";

type AtEnd = (close: () => Promise<void>) => void;
type Callers = Record<"ann" | "bob" | "ops", Caller>;
const floor = (session: string) => `/floor/${encodeURIComponent(`s:${session}`)}`;

/** The answer of a create, without the parts that are new in each session. */
function kind({ status, body: { session } }: Answer, id: string): unknown {
  const { createdAt: _, updatedAt: __, lastActivityAt: ___, id: made, floorId, ...rest } = session;
  const tag = { isTagged: made.startsWith(`${id}-`), length: made.length - id.length };
  return { status, ...tag, floorId: floorId === `s:${made}`, rest };
}

function ownIds(start: (atEnd: AtEnd) => Promise<Callers>): void {
  const atEnd = atEndOfSuite();
  let ann: Caller;
  let bob: Caller;
  let ops: Caller;
  beforeAll(async () => {
    ({ ann, bob, ops } = await start(atEnd));
    // One session is held, so that routes about floors return something.
    await accepted(ann.post("/session/create", { id: "call", agentId: "phone", activate: true }));
  });

  test("another owner's id is not taken: each owner can create a session with it", async () => {
    const fields = { agentId: "chat" };
    const taken = await bob.post("/session/create", { id: "call", ...fields });
    const free = await bob.post("/session/create", { id: "memo", ...fields });
    expect(taken.status).toBe(200);
    expect(kind(taken, "call")).toEqual(kind(free, "memo"));
    const { session: hers } = await accepted(ann.get("/session/call"));
    const { session: his } = await accepted(bob.get("/session/call"));
    expect(hers).toMatchObject({ ownerId: "ann", agentId: "phone", state: "active" });
    expect(his).toMatchObject({ ownerId: "bob", agentId: "chat", state: "created", id: taken.body.session.id });
    // Nor with the complete id of another owner's session.
    const { status, body } = await bob.post("/session/create", { id: hers.id, ...fields });
    expect([status, body.session.ownerId]).toEqual([200, "bob"]);
  });

  test("a session is named by the chosen id and by the full one, on every route", async ({ task }) => {
    // A deleted id stays blocked, for a second try too.
    const chosen = `walk${task.result?.retryCount ?? 0}`;
    const { session } = await accepted(ann.post("/session/create", { id: chosen, agentId: "chat", activate: true }));
    for (const name of [chosen, session.id]) {
      expect((await accepted(ann.get(`/session/${name}`))).session.id).toBe(session.id);
      expect((await accepted(ann.post("/session/load", { sessionId: name }))).session.id).toBe(session.id);
      expect((await accepted(ann.get(floor(name)))).holder?.id).toBe(session.id);
      const { sessions } = await accepted(ann.get(`/session/list?q=${name}`));
      expect(sessions.map(({ id }) => id)).toEqual([session.id]);
      const stream = await ann.stream(`/session/${name}/events`);
      expect(await stream.next()).toMatchObject({ type: "session_created", sessionId: session.id });
      await stream.close();
      await accepted(ann.post(`/session/${name}/pause`));
      await accepted(ann.post(`/session/${name}/resume`));
      const again = await ann.post("/session/create", { id: name, agentId: "chat" });
      expect(again.body.session.id).toBe(session.id);
    }
    expect((await accepted(ann.ask("DELETE", `/session/${chosen}`))).deleted).toBe(true);
    expect((await refused(ann.get(`/session/${session.id}`))).errorCode).toBe("session_not_found");
    // Rule C20 applies to the owner only.
    const mine = await refused(ann.post("/session/create", { id: chosen, agentId: "chat" }));
    expect(mine.errorCode).toBe("idempotency_mismatch");
    expect((await bob.post("/session/create", { id: chosen, agentId: "chat" })).status).toBe(200);
  });

  test("an id of the full length is accepted from every owner", async () => {
    const id = "x".repeat(64);
    const { session } = await accepted(ann.post("/session/create", { id, agentId: "chat" }));
    expect(session.id).toHaveLength(64);
    expect((await accepted(ann.get(`/session/${id}`))).session.id).toBe(session.id);
    const other = await accepted(ann.post("/session/create", { id: `${"x".repeat(63)}y`, agentId: "chat" }));
    expect(other.session.id).not.toBe(session.id);
  });

  test("an operator creates a session with a user's id, and names any session by its full id", async () => {
    const fields = { id: "memo", userId: "ann", agentId: "chat" };
    const { session } = await accepted(ops.post("/session/create", fields));
    expect((await accepted(ann.get("/session/memo"))).session).toMatchObject({ id: session.id, ownerId: "ann" });
    expect((await accepted(ops.get(`/session/${session.id}`))).session.ownerId).toBe("ann");
    expect((await refused(ops.get("/session/memo"))).errorCode).toBe("session_not_found");
  });
}

describe("ids of several owners, embedded", () => ownIds((atEnd) => startGuarded({}, atEnd)));

describeWith([POSTGRES, REDIS], "ids of several owners, scaled out", (startPostgres, startRedis) => {
  const postgres = serverOf(startPostgres);
  ownIds(async (atEnd) => {
    const server = await startRedis();
    atEnd(() => server.stop());
    const { url, drop } = await postgres().makeDatabase();
    atEnd(drop);
    return startGuarded({ settings: { INTERLOCK_STORE: url, INTERLOCK_BUS: server.url } }, atEnd);
  });
});
