import fc from "fast-check";
import { expect, test } from "vitest";
import { ConversationReader } from "../../../src/client/conversation-reader.ts";
import { parseServerEvent, type ServerEvent } from "../../../src/client/server-event.ts";

const agent = { kind: "master", name: "music", depth: 0, path: ["music"] };

/** What a run does between its beginning and its end. */
type Deed = "say" | "call" | "ask" | "fail" | "play";
interface Run {
  /** Its message waits first; `withdrawn`: it never begins. */
  waits: "no" | "begins" | "withdrawn" | "refused";
  deeds: Deed[];
}

const run: fc.Arbitrary<Run> = fc.record({
  waits: fc.constantFrom("no", "begins", "withdrawn", "refused"),
  deeds: fc.array(fc.constantFrom<Deed>("say", "call", "ask", "fail", "play"), { maxLength: 6 }),
});

/** A session's log and its live text. The message of a run that waits comes in the middle of the run before it. */
function logOf(runs: readonly Run[]): ServerEvent[] {
  const events: ServerEvent[] = [];
  let seq = 0;
  const add = (type: string, data: object, more: object = {}) => {
    seq += 1;
    const timestamp = new Date(seq * 1_000).toISOString();
    events.push(parseServerEvent(JSON.stringify({ type, data, sessionId: "s", seq, timestamp, ...more }))!);
  };
  const message = (id: string, more: object) =>
    add("message", { id, sessionId: "s", content: id, createdAt: seq, streaming: false, ...more });
  const asks = (index: number, status: "queued" | "success") =>
    message(`u${index}`, { role: "user", status, runId: `r${index}` });
  for (const [index, { waits, deeds }] of runs.entries()) {
    const runId = `r${index}`;
    if (waits === "no" || index === 0) asks(index, "success");
    if (waits === "refused") add("error", { errorCode: "rejected", message: "No.", runId });
    const isDropped = waits === "withdrawn" || waits === "refused";
    if (!isDropped) add("session_transition", { from: "active.idle", to: "active.running", event: "turn", runId });
    for (const [step, deed] of isDropped ? [] : deeds.entries()) {
      const id = `${runId}-${step}`;
      if (deed === "say") {
        const delta = { messageId: id, runId, attempt: 1, kind: "text", agent };
        for (const offset of [0, 2]) add("delta", { ...delta, offset, text: id.slice(offset, offset || 2) || "--" });
        message(id, { role: "assistant", status: "success", runId, agent });
      }
      if (deed === "play") add("session_updated", { played: { messageId: `${runId}-0`, upTo: step } });
      if (deed === "call") {
        // Some providers count calls anew in each run.
        add("tool_call", { toolCallId: `${step}`, function: { name: "play", arguments: "{}" }, agent });
        add("tool_result", { toolCallId: `${step}`, toolName: "play", content: id, status: "success", agent });
      }
      if (deed === "ask") add("user_question_request", { question: "?", options: [] }, { requestId: id });
      if (deed === "fail") add("error", { errorCode: "internal", message: "Failed.", runId });
    }
    const next = runs[index + 1];
    if (next && next.waits !== "no") asks(index + 1, "queued");
    add("complete", { sessionId: "s", runId, tokenCount: 0, ...(waits === "withdrawn" && { withdrawn: true }) });
  }
  return events;
}

const viewAfter = (events: readonly ServerEvent[], conversation = new ConversationReader()) => {
  for (const event of events) conversation.take(event);
  return conversation.view;
};

test("a conversation does not depend on repeats of its events, nor on where its reader began", () => {
  const parts = fc.tuple(fc.nat(), fc.nat());
  fc.assert(
    fc.property(fc.array(run, { minLength: 1, maxLength: 6 }), parts, (runs, [one, other]) => {
      const log = logOf(runs);
      const [from, to] = [one % log.length, other % log.length].sort((a, b) => a - b) as [number, number];
      const whole = viewAfter(log);
      expect(viewAfter([...log.slice(0, to), ...log.slice(from)])).toEqual(whole);
      // A reader that loads the session in the middle has its messages from the server.
      const { messages, error } = viewAfter(log.slice(0, to));
      const later = viewAfter(log.slice(to), new ConversationReader(messages, error));
      expect([later.messages, later.error]).toEqual([whole.messages, whole.error]);
      expect(later.toolUses).toEqual(whole.toolUses.filter(({ seq }) => seq! > to));
      const calls = runs.flatMap(({ waits, deeds }) =>
        waits === "withdrawn" || waits === "refused" ? [] : deeds.filter((deed) => deed === "call"),
      );
      expect(whole.toolUses.filter(({ result }) => result !== undefined)).toHaveLength(calls.length);
      expect(whole.interactions).toEqual([]);
    }),
    { numRuns: 400 },
  );
});
