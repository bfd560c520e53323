/** The parts of an OpenAPI 3.1 document that a node publishes, by the specification; other fields are faults. */

import { z } from "zod";

const Reference = z.strictObject({ $ref: z.string().startsWith("#/components/schemas/") });
/** A JSON schema of any kind. */
const Schema = z.union([Reference, z.looseObject({}), z.boolean()]);
const Content = z.record(z.string().regex(/^[a-z*]+\/[a-z*.+-]+$/), z.strictObject({ schema: Schema }));

/** Alternatives; a request needs one of them. */
const Security = z.array(z.partialRecord(z.enum(["token", "cookie", "ticket"]), z.tuple([])));
const SecurityScheme = z.union([
  z.strictObject({ type: z.literal("http"), scheme: z.literal("bearer"), description: z.string() }),
  z.strictObject({
    type: z.literal("apiKey"),
    in: z.enum(["cookie", "query"]),
    name: z.string().min(1),
    description: z.string(),
  }),
]);

const Text = z.string().trim().min(1);

const Operation = z.strictObject({
  tags: z.tuple([z.string()]),
  operationId: z.string().regex(/^[a-z]+([A-Z][a-z]+)+$/),
  summary: Text.regex(/^[A-Z].*[^.]$/),
  description: Text.regex(/^[A-Z].*\.$/),
  parameters: z
    .array(
      z.strictObject({
        name: z.string(),
        in: z.enum(["path", "query", "header"]),
        required: z.boolean(),
        schema: Schema,
        description: z.string().optional(),
      }),
    )
    .optional(),
  requestBody: z.strictObject({ required: z.boolean(), content: Content }).optional(),
  responses: z.record(
    z.string().regex(/^([1-5]\d\d|4XX|default)$/),
    z.strictObject({ description: Text, content: Content.optional() }),
  ),
  security: Security.optional(),
});
export type Operation = z.infer<typeof Operation>;

export const OpenApiDocument = z.strictObject({
  openapi: z.literal("3.1.0"),
  info: z.strictObject({
    title: z.string().min(1),
    version: z.string().min(1),
    summary: Text,
    description: Text,
    contact: z.strictObject({ name: Text }),
    license: z.strictObject({ name: z.string(), identifier: z.string() }),
  }),
  servers: z.tuple([z.strictObject({ url: z.literal("/"), description: Text })]),
  tags: z.array(z.strictObject({ name: z.string(), description: Text })),
  components: z.strictObject({
    schemas: z.record(z.string().regex(/^[a-zA-Z0-9._-]+$/), Schema),
    securitySchemes: z.record(z.string(), SecurityScheme).optional(),
  }),
  security: Security,
  paths: z.record(
    z.string().startsWith("/"),
    z.partialRecord(z.enum(["get", "put", "post", "delete", "patch"]), Operation),
  ),
});
export type OpenApiDocument = z.infer<typeof OpenApiDocument>;

/** Every `$ref` in a part of the document. */
export function referencesIn(part: unknown): string[] {
  if (Array.isArray(part)) return part.flatMap(referencesIn);
  if (typeof part !== "object" || part === null) return [];
  return Object.entries(part).flatMap(([key, value]) => (key === "$ref" ? [String(value)] : referencesIn(value)));
}
