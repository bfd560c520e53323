/**
 * The events as `/openapi.json` describes them: one component per type, and one discriminated union per stream. They
 * are generated from the schemas of the data, so every type of event is published.
 */

import { z } from "zod";
import { LIVE_EVENTS, LOGGED_EVENTS, type LoggedType } from "../../protocol/event.ts";
import { EVENT_LOGS, isFloorEvent } from "../../protocol/event-logs.ts";
import { RequestId, SessionId } from "../../protocol/ids.ts";

type Types = { readonly [type: string]: z.ZodType };
type EventSchema = z.ZodObject<{ type: z.ZodLiteral<string> } & z.ZodRawShape>;

/** `session_created` → `SessionCreated`. */
const pascalCase = (type: string) =>
  type
    .split("_")
    .map((word) => word[0]!.toUpperCase() + word.slice(1))
    .join("");

const reference = (id: string) => `#/components/schemas/${id}`;

function envelopeOf(type: string, data: z.ZodType) {
  return {
    type: z.literal(type),
    data,
    timestamp: z.iso.datetime().meta({ description: "when it happened" }),
    sessionId: SessionId.optional(),
    seq: z
      .int()
      .positive()
      .optional()
      .meta({ description: "its number in the session's log; absent for events that are not logged" }),
    requestId: RequestId.optional().meta({ description: "the interaction that the event belongs to" }),
  };
}

/** One component per type, called `<prefix><Type>Event`. */
function componentsOf(types: Types, prefix: string, more: z.ZodRawShape = {}): Map<string, EventSchema> {
  return new Map(
    Object.entries(types).map(([type, data]) => {
      const id = `${prefix}${pascalCase(type)}Event`;
      return [type, z.object({ ...more, ...envelopeOf(type, data) }).meta({ id }) as unknown as EventSchema];
    }),
  );
}

/** The union of some events, discriminated by `type`. */
function unionOf(id: string, description: string, events: ReadonlyMap<string, EventSchema>, types: Iterable<string>) {
  const members = [...types].map((type) => [type, events.get(type)!] as const);
  const mapping = Object.fromEntries(members.map(([type, schema]) => [type, reference(schema.meta()!.id!)]));
  const options = members.map(([, schema]) => schema) as [EventSchema, ...EventSchema[]];
  return z
    .discriminatedUnion("type", options)
    .meta({ id, description, discriminator: { propertyName: "type", mapping } });
}

const EVENTS = componentsOf({ ...LOGGED_EVENTS, ...LIVE_EVENTS }, "");
const POSITIONED_EVENTS = componentsOf(LOGGED_EVENTS, "Logged", {
  position: z.string().meta({ description: "its place in the floor's log" }),
});

const LOGGED_TYPES = Object.keys(LOGGED_EVENTS) as LoggedType[];
const SESSION_TYPES = LOGGED_TYPES.filter((type) => EVENT_LOGS[type] !== "floor");

export const SessionStreamEvent = unionOf("SessionStreamEvent", "an event of one session's stream", EVENTS, [
  ...SESSION_TYPES,
  "delta",
  "log",
  "rollback_result",
  "reset",
  "bye",
]);

export const FloorStreamEvent = unionOf("FloorStreamEvent", "an event of one floor's stream", EVENTS, [
  ...LOGGED_TYPES.filter(isFloorEvent),
  "reset",
  "bye",
]);

export const FloorsStreamEvent = unionOf("FloorsStreamEvent", "an event of the stream of all floors", EVENTS, [
  "reset",
  "floor",
  "bye",
]);

export const ConnectionStreamEvent = unionOf("ConnectionStreamEvent", "an event of a connection's stream", EVENTS, [
  "connected",
  "agent_list",
  ...SESSION_TYPES,
  "delta",
  "log",
  "rollback_result",
  "reset",
  "bye",
]);

export const LoggedEventSchema = unionOf(
  "LoggedEvent",
  "an event as streams have it, with its position in the floor's log",
  POSITIONED_EVENTS,
  LOGGED_TYPES,
);
