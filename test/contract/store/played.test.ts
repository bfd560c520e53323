/** How much of a spoken reply counts as heard, and how often it is stored. */

import { describe, expect, test } from "vitest";
import type { Transition } from "../../../src/protocol/event.ts";
import type { LooseCommand } from "../../support/floors/floor-stage.ts";
import type { HostStage } from "../../support/floors/host-stage.ts";
import { openFloor } from "../../support/floors/hosted-floor.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { makeDatabase, openNode } from "../../support/servers/postgres-place.ts";
import { POSTGRES } from "../../support/servers/postgres-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";

type Part = Extract<LooseCommand, { type: "run.report" }>["parts"][number];

const AGENT = { kind: "master" as const, name: "music", depth: 0, path: ["music"] };
const TEXT = "Turn left, then right.";
const open = (messageId: string): Part => ({ kind: "open", messageId, agent: AGENT });
const OPEN = open("a1");
const append = (offset: number, text: string, messageId = "a1"): Part => ({ kind: "append", messageId, offset, text });
const close = (messageId: string): Part => ({ kind: "close", messageId, status: "success" });
const CLOSE = close("a1");
/** The second message of a reply, after a tool call. */
const MORE = "It is noon.";
const NEXT: Part[] = [open("a2"), append(0, MORE, "a2"), close("a2")];

/** A report of the first attempt. */
const report = (stage: HostStage, runId: string, n: number, parts: Part[], outcome?: { kind: "done" }) =>
  stage.ask(
    { type: "run.report", sessionId: "music", runId, attempt: 1, n, parts, ...(outcome && { outcome }) },
    { caller: null },
  );

const play = (stage: HostStage, upTo: number, messageId = "a1") =>
  stage.ask({ type: "session.played", sessionId: "music", messageId, upTo }, { caller: null });

const storedOf = async (stage: HostStage, id = "a1") =>
  (await stage.store.store.findMessage("music" as never, id as never))!;

function suite(openFloor: () => Promise<HostStage>): void {
  /** A floor with a finished reply. */
  async function openSpoken(): Promise<HostStage> {
    const stage = await openFloor();
    await stage.run("music", "r1");
    await report(stage, "r1", 1, [OPEN, append(0, TEXT), CLOSE], { kind: "done" });
    return stage;
  }

  test("the first position is stored at once, further ones together once a second, and at once with any other command", async () => {
    const stage = await openSpoken();
    const before = stage.store.changes.length;
    expect(await play(stage, 4)).toMatchObject({ ok: true, playedUpTo: 4 });
    const held = [6, 8, 10].map((upTo) => play(stage, upTo));
    await stage.settle();
    expect(stage.store.changes).toHaveLength(before + 1);
    await stage.clock.advance(1_000);
    expect(await Promise.all(held)).toMatchObject([{ playedUpTo: 6 }, { playedUpTo: 8 }, { playedUpTo: 10 }]);
    expect(stage.store.changes).toHaveLength(before + 2);
    const last = play(stage, 12);
    await stage.settle();
    expect(stage.store.changes).toHaveLength(before + 2);
    await Promise.all([stage.rename("music", "Route"), last]);
    expect(stage.store.changes).toHaveLength(before + 3);
    expect((await storedOf(stage)).playedUpTo).toBe(12);
    // A second passes without any: the next one waits for nothing.
    await stage.clock.advance(2_000);
    expect(await play(stage, 14)).toMatchObject({ playedUpTo: 14 });
  });

  test("a repeated, smaller, too large or late position and one of a message that is no reply change nothing, and the answer says so", async () => {
    const stage = await openSpoken();
    await play(stage, 10);
    await stage.clock.advance(2_000);
    const before = stage.store.changes.length;
    for (const [upTo, expected, messageId] of [
      [10, { ok: true, playedUpTo: 10 }],
      [3, { ok: true, playedUpTo: 10 }],
      [TEXT.length + 1, { ok: false, code: "bad_request", message: `The reply ends at 22, before 23.` }],
      [1, { ok: false, code: "not_found" }, "m-r1"],
      [1, { ok: false, code: "not_found" }, "unknown"],
    ] as const) {
      expect(await play(stage, upTo, messageId)).toMatchObject(expected);
      await stage.clock.advance(1_000);
    }
    expect(stage.store.changes).toHaveLength(before);
    await stage.run("music", "r2");
    expect(await play(stage, 20)).toMatchObject({ ok: true, playedUpTo: 10 });
    expect((await storedOf(stage)).playedUpTo).toBe(10);
    await stage.on("music", "archive");
    await stage.clock.advance(1_000);
    expect(await play(stage, 20)).toMatchObject({ ok: true, playedUpTo: 10 });
  });

  test("of a reply that is being written as much counts as is stored, and the rest of its text is kept", async () => {
    const stage = await openFloor();
    await stage.run("music", "r1");
    await report(stage, "r1", 1, [OPEN, append(0, "Turn left")]);
    const [early] = await Promise.all([play(stage, 500), report(stage, "r1", 2, [append(9, ", then")])]);
    expect(early).toMatchObject({ playedUpTo: 9 });
    expect(await storedOf(stage)).toMatchObject({ content: "Turn left, then", status: "running", playedUpTo: 9 });
    const late = play(stage, 12);
    await report(stage, "r1", 3, [append(15, " right."), CLOSE], { kind: "done" });
    expect(await late).toMatchObject({ playedUpTo: 12 });
    expect(await storedOf(stage)).toMatchObject({ content: TEXT, status: "success", playedUpTo: 12 });
  });

  test("a resumed session is told where its reply goes on, also by another host", async () => {
    const stage = await openSpoken();
    await play(stage, 10);
    await stage.create("call", "phone");
    const other = stage.neighbour();
    await other.on("call", "archive");
    const transitions = other.store.changes.flatMap(({ events }) =>
      events.filter(({ type, sessionId }) => type === "session_transition" && sessionId === "music"),
    );
    expect(transitions.map(({ json }) => JSON.parse(json) as Transition)).toMatchObject([
      { to: "active.idle", played: { messageId: "a1", upTo: 10 } },
    ]);
  });

  const chat = (stage: HostStage, runId: string, playedUpTo: number) => {
    const turn = { messageId: `m-${runId}`, runId, content: "no", playedUpTo };
    return stage.ask({ type: "session.chat", sessionId: "music", turn });
  };

  test("a turn may say what was heard of the reply before it, and is refused if it says too much", async () => {
    const stage = await openSpoken();
    expect(await chat(stage, "r2", 23)).toMatchObject({ ok: false, code: "bad_request" });
    expect(await chat(stage, "r3", 10)).toMatchObject({ ok: true, runId: "r3", playedUpTo: 10 });
    expect((await storedOf(stage)).playedUpTo).toBe(10);
    expect((await storedOf(stage, "m-r3")).content).toBe("no");
  });

  /** A floor with a finished reply of two messages: their texts have 22 and 11 units. */
  async function openTwo(): Promise<HostStage> {
    const stage = await openFloor();
    await stage.run("music", "r1");
    await report(stage, "r1", 1, [OPEN, append(0, TEXT), CLOSE, ...NEXT], { kind: "done" });
    return stage;
  }
  const positionsOf = async (stage: HostStage) => [
    (await storedOf(stage)).playedUpTo,
    (await storedOf(stage, "a2")).playedUpTo,
  ];

  test.each([
    [10, [10, undefined]],
    [22, [undefined, 0]],
    [25, [undefined, 3]],
    [33, [undefined, 11]],
  ])("a turn counts %d in the text of all messages of the reply: %j", async (said, positions) => {
    const stage = await openTwo();
    expect(await chat(stage, "r2", said)).toMatchObject({ ok: true, playedUpTo: said });
    expect(await positionsOf(stage)).toEqual(positions);
  });

  test("a turn is refused beyond the text of all messages, but not where a client may have got more than is stored", async () => {
    const stage = await openTwo();
    const refusal = { ok: false, code: "bad_request", message: "The reply ends at 33, before 34." };
    expect(await chat(stage, "r2", 34)).toMatchObject(refusal);
    await stage.run("music", "r3");
    await report(stage, "r3", 1, [open("b1"), append(0, "Well", "b1")]);
    await stage.ask({ type: "session.abort", sessionId: "music", runId: "r3" });
    expect((await storedOf(stage, "b1")).status).toBe("interrupted");
    expect(await chat(stage, "r4", 6)).toMatchObject({ ok: true, playedUpTo: 4 });
  });

  test("no position goes back to an earlier message, also where a turn says it, or a message is begun in the same commit", async () => {
    const stage = await openFloor();
    await stage.run("music", "r1");
    await report(stage, "r1", 1, [OPEN, append(0, TEXT), CLOSE]);
    await Promise.all([report(stage, "r1", 2, NEXT, { kind: "done" }), play(stage, 5, "a2"), play(stage, 9)]);
    expect(await positionsOf(stage)).toEqual([undefined, 5]);
    await stage.clock.advance(2_000);
    expect(await play(stage, 20)).toMatchObject({ ok: true });
    expect(await chat(stage, "r2", 20)).toMatchObject({ ok: true, playedUpTo: 27 });
    expect(await positionsOf(stage)).toEqual([undefined, 5]);
  });

  test("a command is committed with a burst of positions, and never waits for room behind them", async () => {
    const stage = await openSpoken();
    await play(stage, 0);
    const before = stage.store.changes.length;
    const burst = Array.from({ length: 256 }, (_, index) => play(stage, 1 + (index % 20)));
    await expect(play(stage, 21)).rejects.toMatchObject({ code: "busy" });
    await stage.rename("music", "Route");
    expect(stage.store.changes).toHaveLength(before + 1);
    expect(await Promise.all(burst)).toHaveLength(256);
    expect((await storedOf(stage)).playedUpTo).toBe(20);
  });

  test("a turn that says less than was known begins all the same, and its answer has the position that counts", async () => {
    const stage = await openSpoken();
    await play(stage, 10);
    expect(await chat(stage, "r2", 4)).toMatchObject({ ok: true, runId: "r2", playedUpTo: 10 });
    expect((await storedOf(stage)).playedUpTo).toBe(10);
  });
}

describe("what was played of a reply, on SQLite", () => suite(openFloor));

describeWith([POSTGRES], "what was played of a reply, on PostgreSQL", (start) => {
  const server = serverOf(start);
  suite(() => openFloor({ openStore: async (clock) => openNode(await makeDatabase(server()), { clock }) }));
});
