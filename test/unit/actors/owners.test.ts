import { expect, test } from "vitest";
import type { LooseCommand } from "../../support/floors/floor-stage.ts";
import { HostStage } from "../../support/floors/host-stage.ts";
import { openTemporaryStore } from "../../support/stores/temporary-store.ts";

const FLOOR = "s:call";
const SESSION = { sessionId: "call", agentId: "chat" };

const create = (ownerId: string): LooseCommand => ({
  type: "session.create",
  sessionId: "call",
  session: { ...SESSION, ownerId },
  activate: true,
});
const asAnn = { floorId: FLOOR, caller: "ann", actsFor: "ann" };
const asBob = { floorId: FLOOR, caller: "bob", actsFor: "bob" };
const turn = (messageId: string) => ({ messageId, runId: `run-${messageId}`, content: "hello" });

/** A session of Bob's with an id that Ann's session had: hers was deleted, and its tombstone has expired. */
async function handOver(): Promise<HostStage> {
  const stage = await HostStage.open({ openStore: openTemporaryStore });
  await stage.ask(create("ann"), asAnn);
  await stage.ask({ type: "floor.flags", flags: { emergency: true } }, { floorId: FLOOR, caller: "ops" });
  await stage.ask({ type: "session.delete", sessionId: "call" }, asAnn);
  const { store, clock } = stage;
  await store.store.prune({ now: clock.now(), receiptsBefore: clock.now() + 1, limit: 1_000 });
  expect(await stage.ask(create("bob"), asBob)).toMatchObject({ ok: true });
  await stage.ask({ type: "session.chat", sessionId: "call", turn: turn("m") }, asBob);
  return stage;
}

const FOREIGN: LooseCommand[] = [
  ...["activate", "pause", "resume", "archive", "stop", "abort", "delete"].map((verb) => ({
    type: `session.${verb}`,
    sessionId: "call",
  })),
  { type: "session.chat", sessionId: "call", turn: turn("another") },
  // The message exists, and a repeat of it would be answered with its run.
  { type: "session.chat", sessionId: "call", turn: turn("m") },
  { type: "session.rename", sessionId: "call", title: "mine" },
  { type: "session.switch_agent", sessionId: "call", agentId: "music" },
  { type: "session.withdraw", sessionId: "call", messageId: "m" },
] as LooseCommand[];

test.each(FOREIGN)("a session whose id was another owner's is not found for that owner: $type", async (command) => {
  const stage = await handOver();
  const before = await stage.store.store.viewSession(SESSION.sessionId as never, 10);
  expect(await stage.ask(command, asAnn)).toMatchObject({ ok: false, code: "session_not_found" });
  // Also refused where the session must be loaded from its row first.
  expect(await stage.neighbour().ask(command, asAnn)).toMatchObject({ ok: false, code: "session_not_found" });
  expect(await stage.store.store.viewSession(SESSION.sessionId as never, 10)).toEqual(before);
});

test.each(["floor.stop", "floor.stop_all"])(
  "a session whose id was another owner's keeps its floor from that owner: %s",
  async (type) => {
    const stage = await handOver();
    expect(await stage.ask({ type } as LooseCommand, asAnn)).toMatchObject({ ok: false, code: "not_found" });
    expect(await stage.ask({ type } as LooseCommand, asBob)).toMatchObject({ ok: true, archived: ["call"] });
  },
);

test("a session whose id was another owner's inherits no flags", async () => {
  const stage = await handOver();
  const { flags } = await stage.store.store.viewFloor(FLOOR as never, { sessions: 1, decisions: 1 });
  expect(flags).toEqual({});
});

test("a session whose id was another owner's obeys its present owner, and operators", async () => {
  const stage = await handOver();
  const rename = { type: "session.rename", sessionId: "call", title: "mine" } as LooseCommand;
  expect(await stage.ask(rename, asBob)).toMatchObject({ ok: true });
  expect(await stage.ask(rename, { floorId: FLOOR, caller: "ops" })).toMatchObject({ ok: true });
});
