import swagger from "@fastify/swagger";
import { jsonSchemaTransform, jsonSchemaTransformObject } from "fastify-type-provider-zod";
import { z } from "zod";
import { TOKEN_COOKIE } from "../access/credential.ts";
import { Problem } from "../http/problem.ts";
import type { Routes } from "../route-context.ts";

/** A successful answer that is not JSON, as documented. */
export function plainAnswer(type: string, description: string) {
  const schema: z.ZodType<string | Buffer> = z.string();
  return { description, content: { [type]: { schema } } };
}

/** An event stream. OpenAPI 3.1 cannot describe the events of a stream, so the schema is that of one event. */
export function streamAnswer(event: z.ZodType) {
  const schema = event as z.ZodType<string | Buffer>;
  const description = "Server-sent events. The schema is that of the JSON after `data:` in each frame.";
  return { description, content: { "text/event-stream": { schema } } };
}

/** The groups of operations. Each operation is in one. */
const TAGS = [
  { name: "sessions", description: "Create, find, change and end sessions" },
  { name: "messages", description: "Read and send a session's messages" },
  { name: "floors", description: "Floors, their decisions, and the commands of operators" },
  { name: "agents", description: "The agents of the catalogue" },
  {
    name: "streams",
    description: "Server-sent events: docs/use/protocol.md has the rules of positions and reconnecting",
  },
  { name: "doors", description: "For clients of other protocols: docs/use/doors.md" },
  { name: "access", description: "Tickets and cookies, for pages whose EventSource cannot send headers" },
  { name: "operations", description: "The state of this node" },
] as const;

/** How a request authenticates. */
const PROOFS = {
  token: { type: "http", scheme: "bearer", description: "a token of the issuer, or a key" },
  cookie: {
    type: "apiKey",
    in: "cookie",
    name: TOKEN_COOKIE,
    description: "from POST /cookie, for pages of this origin; without TLS it is called interlock_token",
  },
  ticket: { type: "apiKey", in: "query", name: "ticket", description: "from POST /ticket, for one event stream" },
} as const;
const PROVEN = [{ token: [] }, { cookie: [] }];

/**
 * Publish `/openapi.json`, generated from the schemas that validate requests. Call this before any route is added.
 * @param isGuarded whether requests must authenticate
 */
export function publishSchemas(app: Routes, version: string, isGuarded: boolean): void {
  void app.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: {
        title: "Interlock",
        version,
        summary: "Decides which agent session has the floor.",
        description: "docs/use/protocol.md has the rules of events, positions and keys that a schema cannot express.",
        contact: { name: "The operator of this node" },
        license: { name: "Apache-2.0", identifier: "Apache-2.0" },
      },
      servers: [{ url: "/", description: "The node that serves this document" }],
      tags: [...TAGS],
      // An empty list means that no operation requires authentication.
      security: isGuarded ? PROVEN : [],
      ...(isGuarded && { components: { securitySchemes: PROOFS } }),
    },
    transform: isGuarded ? describeProofs : describeFailures,
    transformObject: complete,
  });
  let document: Buffer | undefined;
  app.get("/openapi.json", { schema: { hide: true } }, async (_request, reply) => {
    document ??= Buffer.from(JSON.stringify(app.swagger()));
    return reply.type("application/json; charset=utf-8").send(document);
  });
}

const FAILURE = { description: "It failed.", content: { "application/json": { schema: Problem } } };

/** The body of a route that accepts lines of JSON. */
const LINES = {
  consumes: ["application/x-ndjson"],
  body: { type: "string" },
};

/** The body of a route that accepts a catalogue. */
const YAML = {
  consumes: ["application/yaml"],
  body: { type: "string" },
};

/** Every request can fail, and all failures have the same form. */
const describeFailures: typeof jsonSchemaTransform = (route) => {
  const { schema } = route;
  if (!schema || schema.hide) return jsonSchemaTransform(route);
  const response = { "4xx": FAILURE, default: FAILURE, ...(schema.response as object | undefined) };
  const described = jsonSchemaTransform({ ...route, schema: { ...schema, response } });
  const { acceptsLines, acceptsYaml, conversation } = route.route.config ?? {};
  const marked = conversation && { [ACCEPTS_KEY]: true };
  return {
    ...described,
    schema: { ...described.schema, ...(acceptsLines && LINES), ...(acceptsYaml && YAML), ...marked },
  };
};

/** Marks an operation whose body is another protocol's, so that only the header can hold its key. Not published. */
const ACCEPTS_KEY = "x-takes-key";

/** Mark the open operations and those that accept a ticket. */
const describeProofs: typeof jsonSchemaTransform = (route) => {
  const { isOpen, isStream } = route.route.config ?? {};
  const described = describeFailures(route);
  if (isOpen) return { ...described, schema: { ...described.schema, security: [] } };
  if (isStream) return { ...described, schema: { ...described.schema, security: [...PROVEN, { ticket: [] }] } };
  return described;
};

interface Operation {
  parameters?: { name?: string }[];
  security?: object[];
  requestBody?: { required?: boolean; content: { [type: string]: { schema?: object } } };
  responses: { [status: string]: { description: string; content?: object } };
  [ACCEPTS_KEY]?: true;
}
type Components = { [id: string]: object };

const COMPONENTS = "#/components/schemas/";

const KEY_IN_HEADER = {
  name: "Idempotency-Key",
  in: "header",
  required: false,
  description: "A repeat of the request with the same key has no second effect.",
  schema: { type: "string", pattern: "^[\\x21-\\x7e]{1,128}$" },
};
const KEY = {
  ...KEY_IN_HEADER,
  description: `${KEY_IN_HEADER.description} The body may hold the key as \`commandId\` instead.`,
};
const POSITION = {
  name: "Last-Event-ID",
  in: "header",
  required: false,
  description: "The position to continue from. Takes precedence over `lastEventId`.",
  schema: { type: "string" },
};
/** The framework drops a parameter that a security scheme names too. Generated clients know only the parameter. */
const TICKET = {
  name: "ticket",
  in: "query",
  required: false,
  description: "From POST /ticket, for clients that cannot send headers.",
  schema: { type: "string" },
};

/** Adds what the framework leaves out of operations, and removes unused components. */
const complete: typeof jsonSchemaTransformObject = (document) => {
  const described = jsonSchemaTransformObject(document);
  const published = described as { components?: { schemas?: Components } };
  const components = published.components?.schemas ?? {};
  for (const path of Object.values(described.paths ?? {})) {
    for (const operation of Object.values(path as { [method: string]: Operation }))
      completeOperation(operation, components);
  }
  const used = usedComponents(described.paths, components);
  const schemas = Object.fromEntries(Object.entries(components).filter(([id]) => used.has(id)));
  return { ...described, components: { ...published.components, schemas } } as typeof described;
};

function completeOperation(operation: Operation, components: Components): void {
  const { requestBody, responses, parameters = [] } = operation;
  const schema = requestBody?.content["application/json"]?.schema;
  // A body that may have no field is optional: its absence means an empty object.
  if (schema) requestBody.required = "required" in schema || "$ref" in schema || "minProperties" in schema;
  const added = missingParameters(operation, components);
  delete operation[ACCEPTS_KEY];
  if (added.length > 0) operation.parameters = [...parameters, ...added];
  for (const [status, response] of Object.entries(responses)) {
    if (response.description === "Default Response") response.description = DESCRIPTIONS[status] ?? "It failed.";
  }
}

/** Headers and parameters that hold a key, a position or a ticket, and that no schema of a route names. */
function missingParameters(operation: Operation, components: Components): { name: string }[] {
  const { requestBody, parameters = [], security = [] } = operation;
  const schema = requestBody?.content["application/json"]?.schema;
  const hasParameter = (wanted: string) => parameters.some(({ name }) => name === wanted);
  return [
    ...(operation[ACCEPTS_KEY] ? [KEY_IN_HEADER] : []),
    ...((schema && acceptsKey(schema, components)) || hasParameter("commandId") ? [KEY] : []),
    ...(hasParameter("lastEventId") ? [POSITION] : []),
    ...(security.some((proof) => "ticket" in proof) ? [TICKET] : []),
  ];
}

const DESCRIPTIONS: { readonly [status: string]: string } = { 200: "It succeeded." };

/** Whether a body may hold the `commandId` that the header stands for. */
function acceptsKey(schema: object, components: Components): boolean {
  const named = "$ref" in schema ? components[String(schema.$ref).slice(COMPONENTS.length)] : schema;
  return JSON.stringify(named).includes('"commandId":');
}

/** The components that paths refer to, directly or indirectly. Each schema exists for input and for output. */
function usedComponents(paths: unknown, components: Components): ReadonlySet<string> {
  const used = new Set<string>();
  const search = (part: unknown): void => {
    if (typeof part !== "object" || part === null) return;
    for (const [key, value] of Object.entries(part)) {
      if (key !== "$ref" || typeof value !== "string") {
        search(value);
        continue;
      }
      const id = value.slice(COMPONENTS.length);
      if (used.has(id)) continue;
      used.add(id);
      search(components[id]);
    }
  };
  search(paths);
  return used;
}
