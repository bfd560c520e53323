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

const about = { sessionId: "call" };
const rename: LooseCommand = { type: "session.update", ...about, settings: { title: "mine" } };
const FOREIGN: LooseCommand[] = [
  ...(["activate", "pause", "resume", "archive", "stop", "abort", "delete"] as const).map(
    (verb): LooseCommand => ({ type: `session.${verb}`, ...about }),
  ),
  { type: "session.chat", ...about, turn: turn("another") },
  // The message exists, and a repeat of it would be answered with its run.
  { type: "session.chat", ...about, turn: turn("m") },
  rename,
  { type: "session.switch_agent", ...about, agentId: "music" },
  { type: "session.withdraw", ...about, messageId: "m" },
];

test("a session whose id was another owner's is not found for that owner", async () => {
  const stage = await handOver();
  const view = () => stage.store.store.viewSession(SESSION.sessionId as never, 10);
  const before = await view();
  for (const [index, command] of FOREIGN.entries()) {
    const refusal = { ok: false, code: "session_not_found" };
    expect(await stage.ask(command, asAnn), command.type).toMatchObject(refusal);
    // Also refused where the session must be loaded from its row first.
    const elsewhere = stage.neighbour().ask(command, { ...asAnn, commandId: `elsewhere-${index}` });
    expect(await elsewhere, command.type).toMatchObject(refusal);
    expect(await view(), command.type).toEqual(before);
  }
});

test.each(["floor.stop", "floor.stop_all"] as const)(
  "a session whose id was another owner's keeps its floor from that owner: %s",
  async (type) => {
    const stage = await handOver();
    expect(await stage.ask({ type }, asAnn)).toMatchObject({ ok: false, code: "not_found" });
    expect(await stage.ask({ type }, asBob)).toMatchObject({ ok: true, archived: ["call"] });
  },
);

test("a session whose id was another owner's inherits no flags, and obeys its present owner, and operators", async () => {
  const stage = await handOver();
  const { flags } = await stage.store.store.viewFloor(FLOOR as never, { sessions: 1, decisions: 1 });
  expect(flags).toEqual({});
  expect(await stage.ask(rename, asBob)).toMatchObject({ ok: true });
  expect(await stage.ask(rename, { floorId: FLOOR, caller: "ops" })).toMatchObject({ ok: true });
});
