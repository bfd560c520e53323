import { Buffer } from "node:buffer";
import { stat } from "node:fs/promises";
import { test } from "vitest";
import type { RunRequestId, SessionId } from "../../../src/protocol/ids.ts";
import type { RunRequest } from "../../../src/protocol/internal/run-request.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { Chance } from "../../support/runner/chance.ts";
import { FloorWriter, makeMessage } from "../../support/stores/floor-writer.ts";
import { KeptLog, makeFolder, StandingClock } from "../../support/stores/sqlite-place.ts";

/** A vocabulary: `count` words of `letters` letters each from an alphabet. */
function makeWords(count: number, lengths: readonly number[], alphabet: readonly string[]): string[] {
  const chance = new Chance(7);
  const wordOf = (length: number) => Array.from({ length }, () => chance.pick(alphabet)).join("");
  return Array.from({ length: count }, () => wordOf(chance.pick(lengths)));
}

const LATIN = makeWords(2_000, [2, 3, 4, 5, 6, 8, 10], [..."aabcdeeefghiiklmnnoopqrrssttuuvwz"]);
const HAN = Array.from({ length: 800 }, (_, n) => String.fromCodePoint(0x4e00 + 13 * n));
const CHINESE = makeWords(500, [1, 2, 2, 2, 3], HAN);

function speak(words: readonly string[], glue: string, count: number, turn: number): string {
  const chance = new Chance(turn + 1);
  return Array.from({ length: count }, () => chance.pick(words)).join(glue);
}

/** Turns in one session as a host writes them. Resolves with the bytes of their messages. */
async function talk(floor: FloorWriter, turns: number, say: (count: number, turn: number) => string): Promise<number> {
  let bytes = 0;
  for (let turn = 0; turn < turns; turn++) {
    const runId = `run_${turn}_0123456789abcdef` as never;
    const user = makeMessage("a", `u_${turn}_0123456789abcdef`, { content: say(15, 2 * turn), runId });
    const agent = { kind: "master" as const, name: "music_agent", depth: 0, path: ["music_agent"] };
    const reply = { role: "assistant" as const, content: say(400, 2 * turn + 1), runId, agent };
    const answer = makeMessage("a", `a_${turn}_0123456789abcdef`, reply);
    bytes += Buffer.byteLength(user.content) + Buffer.byteLength(answer.content);
    const run = { kind: "run", id: `run.${turn}`, floorId: floor.id, dueAt: 0, sessionId: "a", runId, agentId: "m" };
    const event = (type: Parameters<FloorWriter["event"]>[0], data: unknown) =>
      floor.event(type, data, { session: "a" });
    const session = floor.session("a", { messageCount: 2 * turn, lastActivityAt: turn });
    const row = { sessions: [session], memory: `{"numbers":"${"c".repeat(400)}"}` };
    const reply1 = JSON.stringify({ ok: true, sessionId: "a", session, messageId: user.id, runId });
    await floor.write({
      ...row,
      messages: [{ kind: "add", message: user }],
      events: [
        event("message", user),
        event("session_transition", { from: "active.idle", to: "active.running", runId }),
      ],
      runRequestsAdded: [{ ...run, priority: 20 } as unknown as RunRequest],
      receipts: [floor.receipt(`command-${turn}-0123456789abcdef`, { bodyHash: "b".repeat(64), reply: reply1 })],
    });
    await floor.write({
      ...row,
      messages: [{ kind: "add", message: answer }],
      events: [
        event("message", answer),
        event("usage", { prompt_tokens: 10, completion_tokens: 20, total_tokens: 30 }),
        event("complete", { sessionId: "a", runId, tokenCount: 30 }),
        event("session_transition", { from: "active.running", to: "active.idle", event: "done", runId }),
      ],
      runRequestsRemoved: [run.id as RunRequestId],
    });
  }
  return bytes;
}

/** All events of the session's log, page by page. */
async function countEvents(store: Store): Promise<number> {
  let count = 0;
  for (let place = 0; ; ) {
    const { entries } = (await store.readSessionLog("a" as SessionId, place, 1_000))!;
    if (entries.length === 0) return count;
    count += entries.length;
    place = entries.at(-1)!.seq!;
  }
}

for (const [name, words, glue] of [
  ["Latin", LATIN, " "],
  ["Chinese", CHINESE, ""],
] as const) {
  test.concurrent(`a thousand turns in ${name} take at most 4 KiB each and three times their text`, async ({
    expect,
    onTestFinished,
  }) => {
    const { file, remove } = await makeFolder();
    onTestFinished(remove);
    const store = await openSqliteStore({ file, clock: new StandingClock(), log: new KeptLog() });
    const floor = new FloorWriter(store);
    const bytes = await talk(floor, 1_000, (count, turn) => speak(words, glue, count, turn));
    expect(await countEvents(store)).toBe(6_000);
    await store.close();
    expect((await stat(file)).size).toBeLessThanOrEqual(1_000 * 4_096 + 3 * bytes);
  });
}
