import { z } from "zod";

/** A JSON schema, or any other part of an OpenAPI document. */
type Json = { [key: string]: unknown };

interface Operation {
  readonly method: string;
  readonly path: RegExp;
  readonly responses: {
    readonly [status: string]: { readonly content?: { readonly [type: string]: { schema: Json } } };
  };
}

/**
 * The published schemas of answers, read strictly: a field without a schema is a fault. Otherwise undocumented fields
 * would go unnoticed.
 */
export class PublishedSchemas {
  readonly #definitions: Json;
  readonly #operations: Operation[];
  readonly #compiled = new Map<string, z.ZodType>();

  /** @param document the answer of `/openapi.json` */
  constructor(document: Json) {
    const { components, paths } = document as {
      components: { schemas: Json };
      paths: { [path: string]: { [method: string]: Pick<Operation, "responses"> } };
    };
    this.#definitions = toStrict(components.schemas) as Json;
    this.#operations = Object.entries(paths)
      // A path without a parameter takes precedence over one with a parameter.
      .sort(([one], [other]) => one.split("{").length - other.split("{").length)
      .flatMap(([path, methods]) =>
        Object.entries(methods).map(([method, { responses }]) => ({
          method: method.toUpperCase(),
          path: new RegExp(`^${path.replace(/\{[^}]+\}/g, "[^/]+")}$`),
          responses,
        })),
      );
  }

  /** The faults of a JSON answer as text; undefined if there are none. */
  findFault(method: string, path: string, status: number, body: unknown): string | undefined {
    const schema = this.#schemaOf(method, path, status);
    if (!schema) return `no schema is published for ${status} to ${method} ${path}`;
    const reading = schema.safeParse(body);
    return reading.success ? undefined : z.prettifyError(reading.error);
  }

  #schemaOf(method: string, path: string, status: number): z.ZodType | undefined {
    const operation = this.#operations.find((each) => each.method === method && each.path.test(path));
    if (!operation && status < 400) return undefined;
    const key = operation && status < 400 ? `${method} ${operation.path.source} ${status}` : "problem";
    const known = this.#compiled.get(key);
    if (known) return known;
    const published =
      key === "problem"
        ? { $ref: "#/components/schemas/Problem" }
        : operation?.responses[status]?.content?.["application/json"]?.schema;
    if (!published) return undefined;
    const schema = compile({ $defs: this.#definitions, ...(toStrict(published) as Json) });
    this.#compiled.set(key, schema);
    return schema;
  }
}

/** The schema with every object closed, and its references where `fromJSONSchema` expects them. */
function toStrict(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(toStrict);
  if (typeof node !== "object" || node === null) return node;
  const strict: Json = {};
  for (const [key, value] of Object.entries(node)) {
    strict[key] = key === "$ref" ? String(value).replace("#/components/schemas/", "#/$defs/") : toStrict(value);
  }
  if (strict["type"] === "object" && strict["properties"] !== undefined) strict["additionalProperties"] ??= false;
  return strict;
}

/** The schema of one of our types, with every object in it closed. */
export function toStrictSchema(schema: z.ZodType): z.ZodType {
  return compile(z.toJSONSchema(schema, { io: "output" }) as Json);
}

const compile = (schema: Json) => z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]);
