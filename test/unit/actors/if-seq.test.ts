import { expect, test } from "vitest";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { HostStage } from "../../support/floors/host-stage.ts";
import { openFloor } from "../../support/floors/hosted-floor.ts";

/** The `seq` that an answer has. */
const seqOf = (reply: object): number => (reply as { seq: number }).seq;

test("a command for an older picture changes nothing, and is told the session as it is", async () => {
  const stage = await openFloor();
  const seen = seqOf(await stage.on("music", "pause"));
  const resumed = await stage.on("music", "resume", { ifSeq: seen });
  expect(resumed).toMatchObject({ ok: true, session: { state: "active" } });
  const { length } = stage.store.changes.flatMap(({ events }) => events);
  expect(await stage.on("music", "pause", { ifSeq: seen })).toEqual({
    ok: false,
    code: "stale",
    facts: { seq: seqOf(resumed), session: expect.objectContaining({ id: "music", state: "active" }) },
  });
  expect(stage.store.changes.flatMap(({ events }) => events)).toHaveLength(length);
  expect((await stage.on("music", "pause", { ifSeq: seqOf(resumed) })).ok).toBe(true);
});

test("of two commands with the same ifSeq exactly one acts: in one batch, one after the other, and on two nodes", async () => {
  const stage = await openFloor();
  const other = stage.neighbour();
  let seen = seqOf(await stage.rename("music", "first"));
  for (const [one, two] of [
    [stage, stage],
    [stage, other],
    [other, stage],
  ] as const) {
    const replies = await Promise.all([
      one.rename("music", "by one", { ifSeq: seen }),
      two.rename("music", "by two", { ifSeq: seen }),
    ]);
    expect(replies.filter(({ ok }) => ok)).toHaveLength(1);
    expect(replies.filter((reply) => !reply.ok && reply.code === "stale")).toHaveLength(1);
    seen += 1;
    expect(seqOf(replies.find(({ ok }) => ok)!)).toBe(seen);
  }
});

test("a repeat with its key gets the first answer, not stale: at once, later, and on another node", async () => {
  const stage = await openFloor();
  const seen = seqOf(await stage.rename("music", "first"));
  const asking = { ifSeq: seen, commandId: "once" };
  const [first, joined] = await Promise.all([stage.on("music", "pause", asking), stage.on("music", "pause", asking)]);
  expect(first.ok).toBe(true);
  expect(joined).toEqual(first);
  expect(await stage.on("music", "pause", asking)).toEqual(first);
  expect(await stage.neighbour().on("music", "pause", asking)).toEqual(first);
});

test("what was due before the command counts as newer, although nobody has seen it yet", async () => {
  const stage = await HostStage.open();
  stage.catalog = makeCatalog([{ name: "music", max_pause: "10s" }]);
  await stage.create("music", "music");
  const seen = seqOf(await stage.on("music", "pause"));
  stage.clock.jump(10_000);
  const refused = await stage.on("music", "resume", { ifSeq: seen });
  expect(refused).toMatchObject({ ok: false, code: "stale", facts: { session: { state: "archived" } } });
});

test("a new catalogue that silences the session counts as newer", async () => {
  const stage = await HostStage.open();
  const agents = [{ name: "call" }, { name: "music" }];
  stage.catalog = makeCatalog(agents);
  await stage.create("music", "music");
  await stage.ask({ type: "floor.flags", flags: { quiet: true } });
  const seen = seqOf(await stage.rename("music", "mine"));
  stage.catalog = makeCatalog(agents, {
    restrictions: [{ name: "quiet", when: "quiet", allow: ["call"], others: "pause" }],
  });
  const reply = await stage.rename("music", "too late", { ifSeq: seen });
  expect(reply).toMatchObject({ ok: false, code: "stale", facts: { session: { state: "paused", title: "mine" } } });
});

test("another owner's command is refused as an unknown session, and told nothing of it", async () => {
  const stage = await HostStage.open();
  await stage.create("music", "music", { ownerId: "ann" });
  const refused = await stage.on("music", "pause", { ifSeq: 0, actsFor: "eve", caller: "eve" });
  expect(refused).toEqual({ ok: false, code: "session_not_found" });
});
