/** All commands at once, on one floor; the invariants must hold. */

import { afterAll, expect, test } from "vitest";
import { accepted, E2eClient } from "../../../support/clients/e2e-client.ts";
import type { StreamEvent } from "../../../support/clients/frame-reader.ts";
import { type Answer, NodeUnderTest } from "../../../support/nodes/node-under-test.ts";
import { Chance } from "../../../support/runner/chance.ts";

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

const AGENTS = ["music", "weather", "phone", "navigation", "patient", "stacker", "hasty", "restless", "general"];
const WORDS = ["hello", "play", "ask", "delete", "flaky", "refused", "browse", "count", "silence"];
const SESSIONS = ["s1", "s2", "s3", "s4", "s5", "s6"];

/** One command, with any result. */
function anything(ann: E2eClient, chance: Chance): Promise<Answer> {
  const sessionId = `${chance.pick(SESSIONS)}-${ann.userId}`;
  const agentId = chance.pick(AGENTS);
  const content = chance.pick(WORDS);
  const options = chance.percent(20) ? { key: `key${chance.below(20)}-${ann.userId}` } : {};
  const create = () => ann.askToCreate({ id: sessionId, agentId, activate: chance.percent(70) }, options);
  const say = () => ann.say(sessionId, content, chance.percent(30) ? { id: `m${chance.below(5)}` } : {}, options);
  const VERBS = ["activate", "resume", "pause", "pause", "archive", "stop"] as const;
  const commands: (() => Promise<Answer>)[] = [
    ...[create, create, say, say, say],
    () => ann.on(sessionId, chance.pick(VERBS), options),
    () => ann.send({ type: "abort", sessionId }, options),
    () => ann.send({ type: "switch_agent", sessionId, agentId }, options),
    () => node.patch(`/session/${sessionId}`, { title: content }, options),
    () => (chance.percent(30) ? node.delete(`/session/${sessionId}`, options) : node.get(ann.floorPath)),
    () => node.put(`${ann.floorPath}/flags`, { night: chance.percent(50) }, options),
    () => ann.send({ type: "chat", content, userId: ann.userId, agentId }, options),
  ];
  return commands[chance.below(commands.length)]!();
}

/** The active session after each event of a floor; never more than one. */
function holdersOf(events: readonly StreamEvent[]): number[] {
  const active = new Set<string>();
  return events.map(({ type, sessionId, data }) => {
    if (type === "session_transition") {
      if (String(data["to"]).startsWith("active")) active.add(sessionId!);
      else active.delete(sessionId!);
    }
    return active.size;
  });
}

test.each([1, 34, 48])("many concurrent commands leave a consistent floor (seed %i)", async (seed) => {
  const chance = new Chance(seed);
  const ann = new E2eClient(node);
  const floor = await node.stream(`${ann.floorPath}/events`);
  const answers: Answer[] = [];
  for (let wave = 0; wave < 8; wave += 1) {
    answers.push(...(await Promise.all(Array.from({ length: 20 }, () => anything(ann, chance)))));
  }
  for (const { status, text } of answers) expect(status, text).toBeLessThan(500);
  await accepted(node.post(`${ann.floorPath}/stop-all`));
  const { holder, queued, position } = await ann.floor();
  expect({ holder, queued }).toEqual({ holder: null, queued: [] });

  await accepted(node.put(`${ann.floorPath}/flags`, { last: true }));
  const events = await floor.until(
    ({ type, data }) => type === "floor_updated" && JSON.stringify(data).includes("last"),
  );
  expect(Math.max(...holdersOf(events))).toBeLessThanOrEqual(1);
  expect(position).toBeDefined();

  const runs = new Set(answers.flatMap(({ body }) => (body.success && body.runId ? [body.runId] : [])));
  const { sessions } = await accepted(node.get(`/session/list?userId=${ann.userId}&includeArchived=true&pageSize=200`));
  const completes: unknown[] = [];
  for (const session of sessions) {
    if (session.state !== "archived") await accepted(ann.on(session.id, "archive"));
    const log = await ann.log(session.id);
    expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1));
    expect(log.at(-1)!.data).toMatchObject({ to: "archived" });
    completes.push(...log.filter(({ type }) => type === "complete").map(({ data }) => data["runId"]));
    const { messageCount, activity } = await ann.see(session.id);
    const messages = await ann.messages(session.id);
    expect(messageCount).toBe(messages.length);
    expect(["idle", "failed"]).toContain(activity);
    for (const { status } of messages) expect(["running", "queued"]).not.toContain(status);
  }
  expect(new Set(completes).size).toBe(completes.length);
  for (const runId of completes) expect(runs).toContain(runId);
});
