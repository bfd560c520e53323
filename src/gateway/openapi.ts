import swagger from "@fastify/swagger";
import { jsonSchemaTransform, jsonSchemaTransformObject } from "fastify-type-provider-zod";
import { z } from "zod";
import { TOKEN_COOKIE } from "./credential.ts";
import type { Routes } from "./door.ts";
import { Problem } from "./problem.ts";

/** A success that is no JSON, as the documentation shows it. */
export function plainAnswer(type: string, description: string) {
  const schema: z.ZodType<string | Buffer> = z.string();
  return { description, content: { [type]: { schema } } };
}

/** How a request says who it is from. */
const PROOFS = {
  token: { type: "http", scheme: "bearer", description: "a token of the issuer, or a key" },
  cookie: {
    type: "apiKey",
    in: "cookie",
    name: TOKEN_COOKIE,
    description: "from POST /cookie, for pages of this origin",
  },
  ticket: { type: "apiKey", in: "query", name: "ticket", description: "from POST /ticket, for one event stream" },
} as const;
const PROVEN = [{ token: [] }, { cookie: [] }];

/**
 * `/openapi.json`, made from the schemas that check requests. To be called before any route is added.
 * @param isGuarded whether requests have to say who they are from
 */
export function publishSchemas(app: Routes, version: string, isGuarded: boolean): void {
  void app.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      ...(isGuarded && { components: { securitySchemes: PROOFS }, security: PROVEN }),
      info: {
        title: "Interlock",
        version,
        description: "Which agent session has the floor. Event streams are described in docs/protocol.md.",
        license: { name: "Apache-2.0", identifier: "Apache-2.0" },
      },
    },
    transform: isGuarded ? describeProofs : describeFailures,
    transformObject: describeBodies,
  });
  app.get("/openapi.json", { schema: { hide: true } }, async () => app.swagger());
}

/** Every request can fail, and every failure looks the same. */
const describeFailures: typeof jsonSchemaTransform = (route) => {
  const { schema } = route;
  if (!schema || schema.hide) return jsonSchemaTransform(route);
  const response = { ...(schema.response as object | undefined), default: Problem };
  return jsonSchemaTransform({ ...route, schema: { ...schema, response } });
};

/** What is open to everybody, and what takes a ticket too. */
const describeProofs: typeof jsonSchemaTransform = (route) => {
  const { isOpen, isStream } = route.route.config ?? {};
  const described = describeFailures(route);
  if (isOpen) return { ...described, schema: { ...described.schema, security: [] } };
  if (isStream) return { ...described, schema: { ...described.schema, security: [...PROVEN, { ticket: [] }] } };
  return described;
};

interface Operation {
  requestBody?: { required?: boolean; content: { [type: string]: { schema?: object } } };
}

/** A body without a field that it must have may be left out: it means the same as an empty one. */
const describeBodies: typeof jsonSchemaTransformObject = (document) => {
  const described = jsonSchemaTransformObject(document);
  for (const path of Object.values(described.paths ?? {})) {
    for (const { requestBody } of Object.values(path as { [method: string]: Operation })) {
      const schema = requestBody?.content["application/json"]?.schema;
      if (schema) requestBody.required = "required" in schema || "$ref" in schema;
    }
  }
  return described;
};
