import { describe, expect, test } from "vitest";
import type { MessageId, SessionId } from "../../../src/protocol/ids.ts";
import type { Session } from "../../../src/protocol/session.ts";
import type { StoredSessionQuery } from "../../../src/store/store.ts";
import { FloorWriter, makeMessage, NOON } from "../../support/stores/floor-writer.ts";
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

  describe("lists of sessions", () => {
    test("sessions are listed by newest activity first, in pages, with the total number", async () => {
      const floor = new FloorWriter(stage.store);
      const sessions = [3, 1, 5, 2, 4].map((at) => floor.session(`s${at}`, { lastActivityAt: NOON + at }));
      await floor.write({ sessions });
      expect(await list()).toEqual({ ids: "s5 s4 s3 s2 s1", total: 5 });
      expect(await list({ page: 1, pageSize: 2 })).toEqual({ ids: "s3 s2", total: 5 });
      expect(await list({ page: 9, pageSize: 2 })).toEqual({ ids: "", total: 5 });
      await floor.write({ sessions: [floor.session("s1", { lastActivityAt: NOON + 9 })] });
      expect((await list()).ids).toBe("s1 s5 s4 s3 s2");
    });

    test("a list of sessions satisfies all given filters together", async () => {
      const floor = new FloorWriter(stage.store);
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
      const floor = new FloorWriter(stage.store);
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
      expect(await find("cafe")).toBe("message part summary title");
      expect(await find("CAFÉ")).toBe("message part summary title");
      expect(await find("cafeteria")).toBe("part");
      expect(await find("caf")).toBe("message part summary title");
      expect(await find("cr caf")).toBe("title");
      expect(await find("afe")).toBe("");
      expect(await find("c")).toBe("");
    });

    test("a search finds every part of Chinese, Japanese and Korean text", async () => {
      await write({
        zh: { says: "正在导航中，请稍候" },
        other: { says: "航导" },
        apart: { says: "导 航" },
        ja: { title: "カーナビの設定" },
        ko: { summary: "길안내를 시작합니다" },
      });
      expect(await find("导航")).toBe("zh");
      expect(await find("正在导航中")).toBe("zh");
      expect(await find("航中")).toBe("zh");
      expect(await find("中")).toBe("zh");
      expect(await find("导")).toBe("apart other zh");
      expect(await find("导航正在")).toBe("");
      expect(await find("ナビ")).toBe("ja");
      expect(await find("ﾅﾋﾞ")).toBe("ja");
      expect(await find("안내")).toBe("ko");
    });

    test("a search matches all of several terms", async () => {
      await write({
        both: { says: "导航到 Blue Note 爵士俱乐部" },
        one: { says: "导航到机场" },
        mixed: { says: "iPhone导航" },
      });
      expect(await find("导航 blue")).toBe("both");
      expect(await find("note 导航 爵士")).toBe("both");
      expect(await find("iphone导航")).toBe("mixed");
      expect(await find("blue airport")).toBe("");
    });

    test("a search finds a session by its exact id, and not by a part of it", async () => {
      await write({ "Ses-1_x": {}, "ses-1_x": {} });
      expect(await find(" Ses-1_x ")).toBe("Ses-1_x");
      expect(await find("Ses-1")).toBe("");
      await write({});
    });

    test("a search without words finds nothing but an exact id", async () => {
      await write({ a: { title: "…" }, "--": { title: "b" } });
      for (const q of ["", "   ", '"', "(*)", "AND NOT", "a:b", "NEAR(", "🎷"])
        expect([q, await find(q)]).toEqual([q, ""]);
      expect(await find("--")).toBe("--");
    });

    test("a search finds a message's words once it is finished, and not those that were changed or deleted", async () => {
      const floor = await write({ a: {} });
      const a = "a" as SessionId;
      const draft = makeMessage("a", "d", { role: "assistant", status: "running", content: "turn" });
      await floor.write({ messages: [{ kind: "add", message: draft }] });
      await floor.write({ messages: [{ kind: "append", sessionId: a, id: draft.id, text: " left" }] });
      expect(await find("turn")).toBe("");
      await floor.write({ messages: [{ kind: "status", sessionId: a, id: draft.id, status: "interrupted" }] });
      expect(await find("turn left")).toBe("a");
      await floor.write({ messages: [{ kind: "put", message: { ...draft, status: "success", content: "go right" } }] });
      expect([await find("left"), await find("right")]).toEqual(["", "a"]);
      await floor.write({ messages: [{ kind: "append", sessionId: a, id: draft.id, text: " now" }] });
      await floor.write({ messages: [{ kind: "status", sessionId: a, id: draft.id, status: "error" }] });
      expect([await find("right"), await find("now")]).toEqual(["a", "a"]);
      await floor.write({ messages: [{ kind: "put", message: { ...draft, content: "go right now" } }] });
      expect(await find("right")).toBe("");
      await floor.write({ messages: [{ kind: "put", message: { ...draft, content: "end", status: "success" } }] });
      await floor.write({ messages: [{ kind: "remove", sessionId: a, id: "d" as MessageId }] });
      expect([await find("right"), await find("end")]).toEqual(["", ""]);
    });

    test("a search follows changes of a session's title and summary", async () => {
      const floor = await write({ a: { title: "Jazz", summary: "trumpets" } });
      await floor.write({ sessions: [floor.session("a", { title: "Blues", summary: "guitars" })] });
      const found = await Promise.all(["jazz", "trumpets", "blues", "guitars"].map(find));
      expect(found).toEqual(["", "", "a", "a"]);
      await floor.write({ sessions: [floor.session("a", { title: "Blues" })] });
      expect([await find("blues"), await find("guitars")]).toEqual(["a", ""]);
    });

    test("a phrase does not match across the title and the summary", async () => {
      await write({ a: { title: "导", summary: "航" } });
      expect(await find("导航")).toBe("");
    });

    test("a session with several hits counts once", async () => {
      const floor = await write({ a: { title: "jazz", says: "jazz" } });
      await floor.write({ messages: [{ kind: "add", message: makeMessage("a", "m2", { content: "jazz" }) }] });
      expect(await list({ q: "jazz" })).toEqual({ ids: "a", total: 1 });
    });

    test("only the beginning of a long text is searchable, and any length is accepted", async () => {
      await write({ a: { says: `beginning ${"word ".repeat(50_000)}end ${"x".repeat(5_000)}` } });
      expect([await find("beginning"), await find("end")]).toEqual(["a", ""]);
      expect(await find("beginning ".repeat(5_000))).toBe("a");
      expect(await find("导".repeat(5_000))).toBe("");
    });
  });
}
