/** Creates sessions in each state in which a command may find them, each with a separate user. */

import type { NodeUnderTest } from "../nodes/node-under-test.ts";
import { accepted, E2eClient } from "./e2e-client.ts";

/** A session that has the floor of a user of its own. */
export async function hold(node: NodeUnderTest, agentId = "general", fields: Record<string, unknown> = {}) {
  const ann = new E2eClient(node);
  return { ann, ...(await ann.hold(agentId, fields)) };
}

/** A session that has not requested the floor, of a user of its own. */
export async function create(node: NodeUnderTest, agentId: string) {
  const ann = new E2eClient(node);
  return { ann, ...(await ann.create(agentId)) };
}

/** A connection of a user of its own, after its first two events. */
export async function connect(node: NodeUnderTest) {
  const ann = new E2eClient(node);
  return { ann, ...(await ann.connect()) };
}

/** A session with these messages. */
export async function importMessages(node: NodeUnderTest, said: { role: string; content: string }[], userId?: string) {
  const lines = said.map((each, n) => ({ type: "message", id: `m${n}`, ...each, status: "success", createdAt: n }));
  const file = [{ type: "session", version: 1, title: "Long" }, ...lines, { type: "end", messages: said.length }];
  const raw = file.map((line) => JSON.stringify(line)).join("\n");
  const headers = { "Content-Type": "application/x-ndjson" };
  const query = userId === undefined ? "" : `?userId=${userId}`;
  return (await accepted(node.post(`/session/import${query}`, undefined, { raw, headers }))).session;
}
