/** What the bridge publishes: a JSON object for each topic, by these schemas. */

import { z } from "zod";
import { sessionsOn } from "../../client/floor-after.ts";
import type { FloorView } from "../../client/interlock-client.ts";
import { type Decision, OUTCOMES, REASONS } from "../../protocol/decision.ts";
import { encodeLevel } from "./topics.ts";

const Level = z.number().min(-60).max(0).meta({ description: "dB relative to its own volume; 0 is as loud as ever" });

/** `…/holder`, retained: which session has the floor. */
const Holder = z.object({
  sessionId: z.string().nullable().meta({ description: "null: no session has the floor" }),
  agent: z.string().nullable(),
  title: z.string().nullable(),
});

/** `…/heard`, retained: which sessions are heard, the holder first. */
const Heard = z.object({
  heard: z.array(z.object({ agent: z.string(), sessionId: z.string(), level: Level })),
});

/** `…/session/<id>`, retained while the session is on the floor: cleared when it ends. */
const PublishedSession = z.object({
  agent: z.string(),
  state: z.enum(["created", "active", "ducked", "paused"]),
  level: Level,
  title: z.string(),
  because: z
    .string()
    .nullable()
    .meta({ description: "why it is in this state: the reason, and by which agent; null if the log does not have it" }),
});

/** `…/decision`, not retained: each decision of the floor. */
const PublishedDecision = z.object({
  outcome: z.enum(OUTCOMES),
  reason: z.enum(REASONS),
  agent: z.string(),
  sessionId: z.string().nullable(),
  holder: z.string().nullable().meta({ description: "the agent that had the floor" }),
  say: z.string().meta({ description: "a sentence fit to be spoken" }),
});

/** The reply to a request, not retained. */
const MqttReply = z.object({
  id: z.string().nullable().meta({ description: "of the request; null if it has none that can be read" }),
  outcome: z
    .enum([...OUTCOMES, "done", "refused", "failed"])
    .meta({ description: "`refused`: by the bridge's file; `failed`: by the node, without a decision" }),
  reason: z.string().nullable().meta({ description: "of the decision, or an error code" }),
  say: z.string().nullable().meta({ description: "a sentence that says why, fit to be spoken" }),
  sessionId: z.string().nullable(),
  zones: z
    .array(
      z.object({
        zone: z.string().nullable(),
        outcome: z.enum([...OUTCOMES, "failed"]),
        reason: z.string().nullable(),
        say: z.string().nullable(),
        sessionId: z.string().nullable(),
      }),
    )
    .optional()
    .meta({ description: "of a request for the zone `*`: what each of the user's floors decided" }),
  state: z.string().optional().meta({ description: "in reply to a heartbeat: the session's own" }),
  level: z.number().optional(),
  lapsed: z.boolean().optional(),
  playedUpTo: z.number().int().optional().meta({ description: "in reply to `played`: the position that counts" }),
});
export type MqttReply = z.infer<typeof MqttReply>;

/** By the last level of the topic. */
const PUBLISHED = {
  holder: Holder,
  heard: Heard,
  session: PublishedSession,
  decision: PublishedDecision,
  reply: MqttReply,
} as const;

/** The JSON Schema of each published object. */
export function mqttSchema(): Record<string, unknown> {
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "What interlock mqtt publishes, by the last level of the topic",
    $defs: Object.fromEntries(
      Object.entries(PUBLISHED).map(([name, schema]) => {
        const { $schema: _, ...own } = z.toJSONSchema(schema) as Record<string, unknown>;
        return [name, own];
      }),
    ),
  };
}

/**
 * The retained topics of a floor.
 * @param base of the floor, without a `/` at its end
 * @param reasons why a session is in its state, by its id
 */
export function topicsOfFloor(
  base: string,
  floor: FloorView,
  reasons: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  const { holder, ducked = [] } = floor;
  const heard = [...(holder ? [holder] : []), ...ducked];
  const topics = new Map<string, string>();
  const put = (name: string, value: object) => topics.set(`${base}/${name}`, JSON.stringify(value));
  put("holder", {
    sessionId: holder?.id ?? null,
    agent: holder?.agentId ?? null,
    title: holder?.title ?? null,
  } satisfies z.infer<typeof Holder>);
  put("heard", {
    heard: heard.map(({ agentId, id, level = 0 }) => ({ agent: agentId, sessionId: id, level })),
  } satisfies z.infer<typeof Heard>);
  for (const { id, agentId, state, level = 0, title } of sessionsOn(floor)) {
    if (state === "archived") continue;
    const because = reasons.get(id) ?? null;
    put(`session/${encodeLevel(id)}`, { agent: agentId, state, level, title, because } satisfies z.infer<
      typeof PublishedSession
    >);
  }
  return topics;
}

export function publishedDecision({ outcome, reason, challenger, holder, say }: Decision): string {
  const { agentId: agent, sessionId = null } = challenger;
  const decision = { outcome, reason, agent, sessionId, holder: holder?.agentId ?? null, say };
  return JSON.stringify(decision satisfies z.infer<typeof PublishedDecision>);
}
