import { describe, expect, test } from "vitest";
import type { LogEntry } from "../../../src/protocol/event.ts";
import type { MessageId, SessionId } from "../../../src/protocol/ids.ts";
import type { LogLine, Message } from "../../../src/protocol/message.ts";
import { ANSWER_BYTES, LOG_BYTES } from "../../../src/store/row-page.ts";
import type { DraftPage, MessageRange, StoredLogPage, StoredMessagePage } from "../../../src/store/store.ts";
import { makeMessage, NOON } from "../../support/stores/floor-writer.ts";
import type { StoreStage } from "./store-contract.ts";

const A = "a" as SessionId;
/** More rows than a page may hold by its limit in bytes. */
const COUNT = 40;
const HEAVY = "x".repeat(100_000);

/** The bytes of all but the last row of a page: a page ends with the row that reaches its limit. */
const beforeLast = (texts: readonly string[]) => texts.slice(0, -1).reduce((sum, text) => sum + text.length, 0);

/** Pages, each read with the one before it, up to one after which nothing comes. */
async function allPages<P extends { hasMore?: boolean } | DraftPage>(
  read: (last: P | undefined) => Promise<P>,
  hasMore: (page: P) => boolean = (page) => "hasMore" in page && page.hasMore === true,
): Promise<P[]> {
  const pages = [await read(undefined)];
  while (hasMore(pages.at(-1)!)) pages.push(await read(pages.at(-1)));
  return pages;
}

/** Large rows: a page ends at its limit in bytes, whatever number of rows was asked for. */
export function pageContract(stage: StoreStage): void {
  describe("pages of large rows", () => {
    /** Every page of a log, from its beginning. */
    async function pagesOf(read: (after: LogEntry | undefined) => Promise<LogEntry[] | undefined>) {
      const pages: LogEntry[][] = [];
      for (let page = await read(undefined); page?.length; page = await read(page.at(-1))) pages.push(page);
      return pages;
    }

    test("a page of a log weighs at most its limit plus one event, and all pages together are the log", async () => {
      const { store, floor } = stage;
      const events: LogEntry[] = [];
      for (let n = 0; n < COUNT; n++) {
        const message = makeMessage("a", `m${n}`, { content: `${n} ${HEAVY}` });
        const event = floor.event("message", { ...message, streaming: false }, { session: "a" });
        events.push(event);
        await floor.write({ sessions: [floor.session("a")], messages: [{ kind: "add", message }], events: [event] });
      }
      const ofSession = await pagesOf(async (after) => (await store.readSessionLog(A, after?.seq ?? 0, 256))?.entries);
      const ofFloor = await pagesOf(
        async (after) => (await store.readFloorLog(floor.id, after?.floorSeq ?? 0, 256)).entries,
      );
      for (const pages of [ofSession, ofFloor]) {
        expect(pages.flat()).toEqual(events);
        for (const page of pages) expect(beforeLast(page.map(({ json }) => json))).toBeLessThan(LOG_BYTES);
        expect(pages.length).toBeLessThanOrEqual(Math.ceil((COUNT * HEAVY.length) / LOG_BYTES) + 1);
      }
    });

    test("pages of a floor's log have the last events of deleted sessions at their places", async () => {
      const { store, floor } = stage;
      for (let n = 0; n < 8; n++) {
        const heavy = floor.event("data", { text: HEAVY }, { session: "a" });
        const gone = floor.session(`gone${n}`);
        const begun = floor.event("session_created", {}, { session: gone.id });
        await floor.write({ sessions: [floor.session("a"), gone], events: [heavy, begun] });
        await floor.delete(gone.id);
      }
      const pages = await pagesOf(
        async (after) => (await store.readFloorLog(floor.id, after?.floorSeq ?? 0, 256)).entries,
      );
      const places = Array.from({ length: 8 }, (_, n) => [3 * n + 1, 3 * n + 3]).flat();
      expect(pages.flat().map(({ floorSeq }) => floorSeq)).toEqual(places);
      expect(pages.length).toBeGreaterThan(2);
    });

    test("an event larger than a page is a page by itself", async () => {
      const { store, floor } = stage;
      const events = [1, 2].map((n) => floor.event("data", { n, text: "x".repeat(2 * LOG_BYTES) }, { session: "a" }));
      await floor.write({ sessions: [floor.session("a")], events });
      expect((await store.readSessionLog(A, 0, 256))?.entries).toEqual([events[0]]);
      expect((await store.readFloorLog(floor.id, 1, 256)).entries).toEqual([events[1]]);
    });

    test("pages of drafts end at about 1 MiB, and together are the drafts of the floor", async () => {
      const { store, floor } = stage;
      const drafts = Array.from({ length: COUNT }, (_, n) =>
        makeMessage(n % 2 ? "a" : "b", `m${n}`, { content: `${n} ${HEAVY}`, status: "running" }),
      );
      for (const message of drafts) {
        await floor.write({ sessions: [floor.session(message.sessionId)], messages: [{ kind: "add", message }] });
      }
      const pages = await allPages<DraftPage>(
        (before) => store.loadDrafts(floor.id, before?.next),
        ({ next }) => next !== undefined,
      );
      expect(pages.flatMap(({ messages }) => messages)).toEqual(drafts);
      for (const { messages } of pages) {
        expect(beforeLast(messages.map(({ content }) => content))).toBeLessThan(ANSWER_BYTES);
      }
      expect(pages).toHaveLength(Math.ceil((COUNT * HEAVY.length) / ANSWER_BYTES));
    });

    test("pages of messages end at about 1 MiB, in either direction, and say that there are more", async () => {
      const { store, floor } = stage;
      const messages = Array.from({ length: COUNT }, (_, n) => makeMessage("a", `m${n}`, { content: `${n} ${HEAVY}` }));
      for (const message of messages) {
        await floor.write({ sessions: [floor.session("a")], messages: [{ kind: "add", message }] });
      }
      const check = (page: Message[]) => {
        const contents = page.map(({ content }) => content);
        expect(contents.length).toBeGreaterThan(9);
        expect(Math.min(beforeLast(contents), beforeLast(contents.toReversed()))).toBeLessThan(ANSWER_BYTES);
      };
      const read = async (range: Partial<MessageRange>) => (await store.listMessages(A, { ...range, limit: 500 }))!;
      const forward = await allPages<StoredMessagePage>((last) =>
        read({ after: last?.messages.at(-1)?.id ?? ("m0" as MessageId) }),
      );
      const backward = await allPages<StoredMessagePage>((last) => read({ before: last?.messages[0]?.id }));
      for (const page of [...forward, ...backward]) if (page.hasMore) check(page.messages);
      expect(forward.flatMap((page) => page.messages)).toEqual(messages.slice(1));
      expect(backward.toReversed().flatMap((page) => page.messages)).toEqual(messages);
      const view = await store.viewSession(A, 500);
      check(view!.messages);
      expect(view).toMatchObject({ messages: messages.slice(-view!.messages.length), hasMore: true });
      expect(await store.viewSession(A, 0)).toMatchObject({ messages: [], hasMore: true });
    });

    test("pages of a message's log end at about 1 MiB, and say that there are more", async () => {
      const { store, floor } = stage;
      const message = makeMessage("a", "m", {});
      const lines = Array.from({ length: COUNT }, (_, n): LogLine => {
        return { id: `l${n}`, stream: "stdout", text: `${n} ${HEAVY}`, timestamp: NOON };
      });
      const logs = lines.map((line) => ({ sessionId: A, messageId: message.id, line }));
      await floor.write({ sessions: [floor.session("a")], messages: [{ kind: "add", message }], logs });
      const pages = await allPages<StoredLogPage>((last) => {
        const after = last?.logs.at(-1)?.id;
        return store.listLogs(A, message.id, { ...(after !== undefined && { after }), limit: 1_000 });
      });
      for (const { logs } of pages) expect(beforeLast(logs.map(({ text }) => text))).toBeLessThan(ANSWER_BYTES);
      expect(pages.flatMap(({ logs }) => logs)).toEqual(lines);
    });
  });
}
