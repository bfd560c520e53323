import { expect } from "vitest";
import { scripted } from "../catalogs/e2e-catalog.ts";
import type { ChildServer } from "../nodes/child-server.ts";

/** A catalogue whose agent takes a scheduled message. */
export const SCHEDULED = { agents: [scripted("alarm", { priority: 50 })] };

/** Create a session that waits for its time, on the floor of a user with its name. */
export async function schedule(node: ChildServer, id: string, fields: object): Promise<void> {
  const { status, body } = await node.post("/session/create", { id, agentId: "alarm", userId: id, ...fields }, id);
  expect(status, JSON.stringify(body)).toBe(200);
}

/** How often the time of such a session has come, by its floor's log; each time it asked, and was granted the floor. */
export async function askedAt(node: ChildServer, id: string): Promise<number> {
  const { body } = await node.ask("GET", `/floor/u%3A${id}/log`);
  const { events } = body as unknown as { events: { type: string; data: Record<string, unknown> }[] };
  const fired = events.filter(({ type, data }) => type === "session_updated" && data["fired"]).length;
  const granted = events.filter(({ type, data }) => type === "arbitration" && data["outcome"] === "granted").length;
  expect(granted).toBe(fired);
  return fired;
}
