import { afterAll, expect, test } from "vitest";
import { seqOf } from "../../../../src/protocol/position.ts";
import { accepted, refused } from "../../../support/clients/e2e-client.ts";
import { hold } from "../../../support/clients/e2e-states.ts";
import { type AnswerBody, NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

/** The session as it is, and the `seq` of its newest event. */
async function look(id: string) {
  const { session, position } = await accepted(node.get(`/session/${id}`));
  return { session, seq: seqOf(position)! };
}

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

test("the seq of an answer and of an event is what ifSeq takes", async () => {
  const { ann, id } = await hold(node, "music");
  const stream = await ann.follow(id);
  const { seq } = await look(id);
  const paused = await accepted(node.post(`/session/${id}/pause`, { ifSeq: seq }));
  expect((await stream.findState(id, "paused")).seq).toBe(seqOf(paused.position));
});

test("every command of a session that knows too little is stale and changes nothing", async () => {
  const { ann, id } = await hold(node, "music");
  const before = await look(id);
  const stale = { ifSeq: before.seq - 1 };
  const verbs = ["activate", "pause", "resume", "archive", "stop", "summarize"];
  const asked = [
    ...verbs.map((verb) => node.post(`/session/${id}/${verb}`, stale)),
    node.post(`/session/${id}/mode`, { mode: "default", ...stale }),
    node.post(`/session/${id}/schedule`, { in: "1h", ...stale }),
    node.patch(`/session/${id}`, { title: "Other", ...stale }),
    node.delete(`/session/${id}`, { raw: JSON.stringify(stale) }),
    node.delete(`/session/${id}/messages/none`, { raw: JSON.stringify(stale) }),
    ann.say(id, "hello", stale),
    ...["abort", "pause", "resume", "archive"].map((type) => ann.send({ type, sessionId: id, ...stale })),
    ann.send({ type: "switch_agent", sessionId: id, agentId: "chat", ...stale }),
    ann.send({ type: "user_question_response", sessionId: id, requestId: "none", response: "a", ...stale }),
    ann.send({ type: "tool_confirmation_response", sessionId: id, requestId: "none", response: "approve", ...stale }),
  ];
  for (const each of asked) {
    const { errorCode, retryable, session, seq } = (await refused(each)) as AnswerBody & { seq: number };
    expect({ errorCode, retryable, session, seq }).toEqual({
      errorCode: "stale",
      retryable: false,
      session: before.session,
      seq: before.seq,
    });
  }
  expect(await look(id)).toEqual(before);
});

test("the resent message of a stale picture begins no turn", async () => {
  const { ann, id } = await hold(node);
  const { messageId } = await accepted(ann.say(id, "nod"));
  const resent = await refused(node.post(`/session/${id}/messages/${messageId}/resend`, { ifSeq: 1 }));
  expect(resent.errorCode).toBe("stale");
  expect((await ann.messages(id)).filter(({ role }) => role === "user")).toHaveLength(1);
});

test("an ifSeq that is no place in a log is refused", async () => {
  const { id } = await hold(node, "music");
  for (const ifSeq of [-1, 1.5, "3", null, 2 ** 60]) {
    expect((await refused(node.post(`/session/${id}/pause`, { ifSeq }))).errorCode).toBe("bad_request");
  }
});
