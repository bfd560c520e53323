import { describe, expect, test } from "vitest";
import type { SessionId } from "../../../src/protocol/ids.ts";
import type { Session } from "../../../src/protocol/session.ts";
import type { FloorChange, StoredSessionQuery } from "../../../src/store/store.ts";
import { makeMessage, NOON } from "../../support/stores/floor-writer.ts";
import type { StoreStage } from "./store-contract.ts";

export function searchContract(stage: StoreStage): void {
  const list = async (query: Partial<StoredSessionQuery> = {}) => {
    const { sessions, total } = await stage.store.listSessions({
      ...{ page: 0, pageSize: 20, includeArchived: false },
      ...query,
    });
    return { ids: sessions.map(({ id }) => id).join(" "), total };
  };
  const find = async (q: string) => (await list({ q })).ids.split(" ").sort().join(" ");
  /** Each search, and the ids of the sessions that it finds, in the order of their names. */
  async function expectFound(expected: Record<string, string>): Promise<void> {
    const found = await Promise.all(Object.keys(expected).map(async (q) => [q, await find(q)]));
    expect(Object.fromEntries(found)).toEqual(expected);
  }

  describe("lists of sessions", () => {
    test("sessions are listed by newest activity first, in pages, with the total number", async () => {
      const { floor } = stage;
      const sessions = [3, 1, 5, 2, 4].map((at) => floor.session(`s${at}`, { lastActivityAt: NOON + at }));
      await floor.write({ sessions });
      expect(await list()).toEqual({ ids: "s5 s4 s3 s2 s1", total: 5 });
      expect(await list({ page: 1, pageSize: 2 })).toEqual({ ids: "s3 s2", total: 5 });
      expect(await list({ page: 9, pageSize: 2 })).toEqual({ ids: "", total: 5 });
      await floor.write({ sessions: [floor.session("s1", { lastActivityAt: NOON + 9 })] });
      expect((await list()).ids).toBe("s1 s5 s4 s3 s2");
    });

    test("a list of sessions satisfies all given filters together", async () => {
      const { floor } = stage;
      const make = (id: string, at: number, over: Partial<Session>) =>
        floor.session(id, { lastActivityAt: NOON + at, ...over });
      await floor.write({
        sessions: [
          make("a", 1, { ownerId: "o1", workspaceId: "w1" }),
          make("b", 2, { ownerId: "o1", userId: "bob", state: "paused" }),
          make("c", 3, { ownerId: "o2", agentId: "phone_agent" as Session["agentId"], state: "archived" }),
          make("d", 4, { ownerId: "o1", state: "archived" }),
        ],
      });
      expect((await list()).ids).toBe("b a");
      expect((await list({ includeArchived: true })).ids).toBe("d c b a");
      expect((await list({ state: "archived" })).ids).toBe("d c");
      expect((await list({ state: "paused" })).ids).toBe("b");
      expect((await list({ ownerId: "o1" })).ids).toBe("b a");
      expect((await list({ ownerId: "o1", includeArchived: true, userId: "ann" })).ids).toBe("d a");
      expect((await list({ userId: "bob", ownerId: "o2" })).ids).toBe("");
      expect((await list({ workspaceId: "w1" })).ids).toBe("a");
      expect((await list({ agentId: "phone_agent" as Session["agentId"], state: "archived" })).ids).toBe("c");
      expect(await list({ q: "session", state: "archived", ownerId: "o1" })).toEqual({ ids: "d", total: 1 });
    });
  });

  describe("search", () => {
    async function write(texts: Record<string, Partial<Session> & { says?: string }>) {
      const { floor } = stage;
      const entries = Object.entries(texts).map(([id, { says, ...over }]) => ({ id, says, over }));
      await floor.write({
        sessions: entries.map(({ id, over }) => floor.session(id, { title: "x", ...over })),
        messages: entries
          .filter(({ says }) => says !== undefined)
          .map(({ id, says }) => ({ kind: "add", message: makeMessage(id, "m", { content: says! }) })),
      });
      return floor;
    }

    test("a search finds Latin words and their beginnings anywhere, regardless of case and accents", async () => {
      await write({
        title: { title: "Café crème" },
        summary: { summary: "We spoke of a CAFE." },
        message: { says: "le caféˌ, un café\u0301..." },
        part: { says: "cafeteria" },
      });
      const all = "message part summary title";
      await expectFound({ cafe: all, CAFÉ: all, caf: all, cafeteria: "part", "cr caf": "title", afe: "", c: "" });
    });

    test("a search finds every part of Chinese, Japanese and Korean text", async () => {
      await write({
        zh: { says: "正在导航中，请稍候" },
        other: { says: "航导" },
        apart: { says: "导 航" },
        ja: { title: "カーナビの設定" },
        ko: { summary: "길안내를 시작합니다" },
      });
      await expectFound({ 导航: "zh", 正在导航中: "zh", 航中: "zh", 中: "zh", 导: "apart other zh", 导航正在: "" });
      await expectFound({ ナビ: "ja", ﾅﾋﾞ: "ja", 안내: "ko" });
    });

    test("a search matches all of several terms", async () => {
      await write({
        both: { says: "导航到 Blue Note 爵士俱乐部" },
        one: { says: "导航到机场" },
        mixed: { says: "iPhone导航" },
      });
      const mixed = { iphone导航: "mixed" };
      await expectFound({ "导航 blue": "both", "note 导航 爵士": "both", ...mixed, "blue airport": "" });
    });

    test("a search finds a session by its exact id, and not by a part of it", async () => {
      await write({ "Ses-1_x": {}, "ses-1_x": {} });
      await expectFound({ " Ses-1_x ": "Ses-1_x", "Ses-1": "" });
    });

    test("a search without words finds nothing but an exact id", async () => {
      await write({ a: { title: "…" }, "--": { title: "b" } });
      const words = ["", "   ", '"', "(*)", "AND NOT", "a:b", "NEAR(", "🎷"];
      await expectFound({ ...Object.fromEntries(words.map((q) => [q, ""])), "--": "--" });
    });

    test("a search finds a message's words once it is finished, and not those that were changed or deleted", async () => {
      const floor = await write({ a: {} });
      const a = "a" as SessionId;
      const draft = makeMessage("a", "d", { role: "assistant", status: "running", content: "turn" });
      const of = { sessionId: a, id: draft.id };
      const steps: [FloorChange["messages"], Record<string, string>][] = [
        [[{ kind: "add", message: draft }], { turn: "" }],
        [[{ kind: "append", ...of, text: " left" }], { turn: "" }],
        [[{ kind: "status", ...of, status: "interrupted" }], { "turn left": "a" }],
        [[{ kind: "put", message: { ...draft, status: "success", content: "go right" } }], { left: "", right: "a" }],
        [[{ kind: "append", ...of, text: " now" }], {}],
        [[{ kind: "status", ...of, status: "error" }], { right: "a", now: "a" }],
        [[{ kind: "put", message: { ...draft, content: "go right now" } }], { right: "" }],
        [[{ kind: "put", message: { ...draft, content: "end", status: "success" } }], { end: "a" }],
        [[{ kind: "remove", ...of }], { right: "", end: "" }],
      ];
      for (const [messages, found] of steps) {
        await floor.write({ messages });
        await expectFound(found);
      }
    });

    test("a search follows changes of a session's title and summary", async () => {
      const floor = await write({ a: { title: "Jazz", summary: "trumpets" } });
      await floor.write({ sessions: [floor.session("a", { title: "Blues", summary: "guitars" })] });
      await expectFound({ jazz: "", trumpets: "", blues: "a", guitars: "a" });
      await floor.write({ sessions: [floor.session("a", { title: "导", summary: "航" })] });
      // A phrase does not match across the title and the summary.
      await expectFound({ guitars: "", 导: "a", 航: "a", 导航: "" });
    });

    test("a session with several hits counts once, and not any more when it is deleted", async () => {
      const floor = await write({ a: { title: "jazz", says: "jazz" } });
      await floor.write({ messages: [{ kind: "add", message: makeMessage("a", "m2", { content: "jazz" }) }] });
      expect(await list({ q: "jazz" })).toEqual({ ids: "a", total: 1 });
      await floor.delete("a");
      expect([await list({ q: "jazz" }), await list()]).toEqual([
        { ids: "", total: 0 },
        { ids: "", total: 0 },
      ]);
    });

    test("only the beginning of a long text is searchable, and any length is accepted", async () => {
      await write({ a: { says: `beginning ${"word ".repeat(50_000)}end ${"x".repeat(5_000)}` } });
      const long = { ["beginning ".repeat(5_000)]: "a", ["导".repeat(5_000)]: "" };
      await expectFound({ beginning: "a", end: "", ...long });
    });
  });
}
