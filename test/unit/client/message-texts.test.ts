import { expect, it } from "vitest";
import { type MessageText, MessageTexts } from "../../../src/client/message-texts.ts";
import { parseServerEvent, type ServerEvent } from "../../../src/client/server-event.ts";

const AGENT = { kind: "master", name: "music_agent", depth: 0, path: ["music_agent"] };

function event(type: string, data: object): ServerEvent {
  const timestamp = "2026-01-01T00:00:00.000Z";
  return parseServerEvent(JSON.stringify({ type, data, timestamp, sessionId: "s" }))!;
}

function delta(offset: number, text: string, more: object = {}): ServerEvent {
  return event("delta", { messageId: "m", runId: "r", attempt: 1, kind: "text", offset, text, agent: AGENT, ...more });
}

function message(content: string, streaming: boolean, more: object = {}): ServerEvent {
  const about = { id: "m", sessionId: "s", role: "assistant", runId: "r" };
  return event("message", { ...about, content, status: streaming ? "running" : "success", streaming, ...more });
}

/** The text of the message "m" after each event. */
function follow(...events: ServerEvent[]): (string | undefined)[] {
  const texts = new MessageTexts();
  return events.map((each) => texts.take(each)?.text);
}

it.each<[what: string, events: ServerEvent[], texts: (string | undefined)[]]>([
  [
    "grows by deltas, in UTF-16 units, and is complete with the message",
    [delta(0, "导航🚗"), delta(4, "，右转"), message("导航🚗，右转。", false)],
    ["导航🚗", "导航🚗，右转", "导航🚗，右转。"],
  ],
  [
    "is the server's where the two differ",
    [delta(0, "abc"), message("xyz", true), delta(3, "!")],
    ["abc", "xyz", "xyz!"],
  ],
  [
    "is finished once: no late delta reopens it",
    [message("all", false), delta(0, "all"), message("a", true)],
    ["all", undefined, undefined],
  ],
])("a message's text %s", (_, events, texts) => {
  expect(follow(...events)).toEqual(texts);
});

it("a message's text is separate from its reasoning, which has its own offsets", () => {
  const texts = new MessageTexts();
  texts.take(delta(0, "hm", { kind: "reasoning" }));
  texts.take(delta(0, "yes"));
  expect(texts.take(delta(2, "m", { kind: "reasoning" }))).toMatchObject({ text: "yes", reasoning: "hmm" });
  const parts = [{ type: "reasoning", text: "hmm!" }, { type: "other" }];
  expect(texts.take(message("yes", true, { parts }))).toMatchObject({ text: "yes", reasoning: "hmm!" });
});

it("the text of an abandoned attempt is removed, and stays removed", () => {
  const texts = new MessageTexts();
  texts.take(delta(0, "first"));
  texts.take(delta(0, "second", { messageId: "m2", attempt: 2 }));
  expect(texts.unfinished.map(({ text }) => text)).toEqual(["second"]);
  expect(texts.take(delta(0, "first"))).toBeUndefined();
});

const idsOf = (texts: MessageTexts) => texts.unfinished.map(({ messageId }: MessageText) => messageId);

it("an unfinished message ends with its run, in that session alone", () => {
  const texts = new MessageTexts();
  texts.take(delta(0, "a"));
  texts.take({ ...delta(0, "b"), sessionId: "t" });
  texts.take(event("complete", { sessionId: "s", runId: "r" }));
  expect(texts.unfinished).toMatchObject([{ sessionId: "t", text: "b", isStreaming: true }]);
});

it("an unfinished message is dropped at a reset, of one session or of all", () => {
  const texts = new MessageTexts();
  texts.take(delta(0, "a"));
  texts.take(event("reset", { sessionId: "other", from: 3 }));
  expect(idsOf(texts)).toEqual(["m"]);
  texts.take(event("reset", {}));
  expect(idsOf(texts)).toEqual([]);
});

it("the number of unfinished messages is limited: the oldest is dropped", () => {
  const texts = new MessageTexts();
  for (let index = 0; index < 300; index += 1) texts.take(delta(0, "x", { messageId: `m${index}` }));
  expect(idsOf(texts)).toHaveLength(256);
  expect(idsOf(texts)[0]).toBe("m44");
});
