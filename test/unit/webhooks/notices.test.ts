import { expect, test } from "vitest";
import type { Webhook } from "../../../src/config/webhooks-file.ts";
import type { LogEntry, LoggedType } from "../../../src/protocol/event.ts";
import type { FloorId, RequestId, SessionId } from "../../../src/protocol/ids.ts";
import { NOTICE_TYPES, type NoticeType } from "../../../src/protocol/notice.ts";
import { noticesOf } from "../../../src/webhooks/notices.ts";
import { makeSession, NOON } from "../../support/stores/floor-writer.ts";

const ALL = Object.keys(NOTICE_TYPES) as NoticeType[];
const hook = (name: string, over: Partial<Webhook> = {}): Webhook => ({
  ...{ name, url: new URL("https://example.com/"), keys: [], types: new Set(ALL), agents: undefined, users: undefined },
  ...{ mayBePrivate: false, timeoutMs: 1_000, ...over },
});

let seq = 0;
function entry(type: LoggedType, data: object, over: Partial<LogEntry> = {}): LogEntry {
  seq += 1;
  const json = JSON.stringify(data);
  return { floorSeq: seq, sessionId: "a" as SessionId, seq, type, at: NOON, json, ...over };
}

function written(hooks: Webhook[], entries: LogEntry[], deleted: string[] = []) {
  let ids = 0;
  const events = {
    floorId: "u:ann/rear" as FloorId,
    entries,
    sessionOf: (id: SessionId) => makeSession(id, { ownerId: "org" }),
    deleted: new Set(deleted as SessionId[]),
  };
  const given = { time: 42, newId: () => String(++ids) };
  return noticesOf(new Map(hooks.map((each) => [each.name, each])), events, given) ?? [];
}
const typesOf = (notices: readonly { payload: string }[]) => notices.map(({ payload }) => JSON.parse(payload).type);

test("each event has the type that the table says, and other events none", () => {
  const entries = [
    entry("complete", {}),
    entry("error", {}),
    entry("user_question_request", {}),
    entry("tool_confirmation_request", {}),
    entry("session_transition", { to: "paused" }),
    entry("arbitration", { outcome: "granted" }),
    entry("session_transition", { to: "paused", reason: "lease_expired" }),
    entry("arbitration", { outcome: "rejected", reason: "lease_expired", say: "" }),
    entry("message", { content: '"reason":"lease_expired"' }),
    entry("arbitration", { say: '"reason":"lease_expired"' }),
  ];
  expect(typesOf(written([hook("h")], entries))).toEqual([
    "turn.ended",
    "turn.failed",
    "question.waiting",
    "confirmation.waiting",
    "session.transition",
    "decision",
    "session.transition",
    "lease.lapsed",
    "decision",
    "lease.lapsed",
    "decision",
  ]);
  const only = written([hook("h", { types: new Set<NoticeType>(["lease.lapsed"]) })], entries);
  expect(typesOf(only)).toEqual(["lease.lapsed", "lease.lapsed"]);
});

test("a notice has its event as the log has it, who it is about, and its session as its lane", () => {
  const event = entry("user_question_request", { question: 'who "is" it?' }, { requestId: "q1" as RequestId });
  const [notice] = written([hook("h")], [event]);
  expect(notice).toMatchObject({ id: "msg_1", hook: "h", subject: "a", at: 42 });
  expect(JSON.parse(notice!.payload)).toEqual({
    type: "question.waiting",
    timestamp: "2026-01-01T12:00:00.000Z",
    data: {
      ...{ floorId: "u:ann/rear", floorSeq: event.floorSeq, sessionId: "a", seq: event.seq, requestId: "q1" },
      ...{ agentId: "music_agent", userId: "ann", ownerId: "org" },
      event: { type: "user_question_request", data: { question: 'who "is" it?' } },
    },
  });
});

test("a hook is told of its agents and users only", () => {
  const entries = [entry("complete", {})];
  const told = (over: Partial<Webhook>) => written([hook("h", over)], entries).length;
  expect(told({ agents: new Set(["music_agent"]), users: new Set(["ann"]) })).toBe(1);
  expect(told({ users: new Set(["org"]) })).toBe(1);
  expect(told({ agents: new Set(["other"]) })).toBe(0);
  expect(told({ users: new Set(["bob"]) })).toBe(0);
});

test("a decision about a session that was not made is that of its challenger, in the lane of its floor", () => {
  const { sessionId: _, seq: __, ...refused } = entry("arbitration", { challenger: { agentId: "nav" } });
  const told = (over: Partial<Webhook>) => written([hook("h", over)], [refused]);
  const [notice] = told({ agents: new Set(["nav"]), users: new Set(["ann"]) });
  expect(notice).toMatchObject({ subject: "u:ann/rear" });
  expect(JSON.parse(notice!.payload).data).toMatchObject({ agentId: "nav", userId: "ann" });
  expect(told({ agents: new Set(["music_agent"]) })).toEqual([]);
  expect(told({ users: new Set(["bob"]) })).toEqual([]);
  // A commit never fails because of what is told of it.
  const { sessionId: ___, ...strange } = entry("session_transition", {});
  expect(typesOf(written([hook("h")], [strange]))).toEqual(["session.transition"]);
  expect(written([hook("h", { agents: new Set(["nav"]) })], [strange])).toEqual([]);
});

test("of a deleted session only the last event is told", () => {
  const entries = [
    entry("complete", {}),
    entry("session_transition", { to: "deleted" }),
    entry("complete", {}, { sessionId: "b" as SessionId }),
  ];
  expect(typesOf(written([hook("h")], entries, ["a"]))).toEqual(["session.transition", "turn.ended"]);
});
