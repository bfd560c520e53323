import { z } from "zod";
import { LOGGED_EVENTS } from "../../src/protocol/event.ts";
import { AgentId, FloorId, RequestId, SessionId } from "../../src/protocol/ids.ts";
import { KEYWORDS, type LogSchema, MAX_TIME, type Schema } from "../log/schema-fault.ts";

const Envelope = z.object({
  type: z.enum(Object.keys(LOGGED_EVENTS)),
  data: z.record(z.string(), z.unknown()),
  // As logPosition() writes it.
  position: z.string().regex(/^[a-z0-9]{1,6}\.\d{1,15}$/),
  timestamp: z.iso.datetime(),
  sessionId: SessionId.optional(),
  seq: z.int().positive().optional(),
  requestId: RequestId.optional(),
});

/** What the events of a saved log must be, from the server's own schemas. */
export function logSchema(): LogSchema {
  const all = z.object({ floorId: FloorId, event: Envelope, data: z.object(LOGGED_EVENTS) });
  const { properties, $defs } = bare(z.toJSONSchema(all, { io: "input", override: refined })) as Required<Schema>;
  return { floorId: properties["floorId"]!, event: properties["event"]!, data: properties["data"]!.properties!, $defs };
}

/** What a schema checks beyond its pattern: ids are no names of properties that every object has. */
function refined({ zodSchema, jsonSchema }: { zodSchema: unknown; jsonSchema: { pattern?: string } }): void {
  if (zodSchema !== SessionId && zodSchema !== AgentId) return;
  const reserved = Object.getOwnPropertyNames(Object.prototype).join("|");
  jsonSchema.pattern = jsonSchema.pattern!.replace("^", `^(?!(?:${reserved})$)`);
}

/** Fields of times, which must be dates. */
const isTime = (name: string): boolean => /(?:At|Until|until)$/.test(name);

/**
 * The schema with only the keywords that the page checks.
 * @throws Error for a keyword that would have to be checked and is not
 */
function bare(schema: object): Schema {
  const kept: Record<string, unknown> = {};
  for (const [keyword, value] of Object.entries(schema)) {
    if (keyword === "properties" || keyword === "$defs") {
      kept[keyword] = Object.fromEntries(
        Object.entries(value as Record<string, object>).map(([name, each]) => {
          const inner = bare(each);
          return [name, inner.type === "number" && isTime(name) ? { ...inner, maximum: MAX_TIME } : inner];
        }),
      );
    } else if (keyword === "items" || keyword === "additionalProperties") kept[keyword] = bare(value);
    else if (keyword === "anyOf") kept[keyword] = value.map(bare);
    else if (KEYWORDS.has(keyword)) kept[keyword] = value;
    else if (!NOTES.has(keyword)) throw new Error(`the page does not check ${keyword}`);
  }
  return kept;
}

/** Keywords that say nothing of the value, or the same as another of the schema. */
const NOTES: ReadonlySet<string> = new Set(["$schema", "id", "description", "format", "propertyNames"]);

if (import.meta.main) process.stdout.write(JSON.stringify(logSchema()));
