import type { OpenApiDocument } from "./openapi-document.ts";

/** The parts of a JSON schema that requests use. */
export interface Schema {
  $ref?: string;
  type?: string;
  const?: unknown;
  enum?: unknown[];
  properties?: Record<string, Schema>;
  items?: Schema;
  additionalProperties?: Schema | boolean;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  minimum?: number;
}

/** Valid values of a schema, one for each alternative at its top; `swap` replaces the value of a string. */
export function samplesOf(schema: Schema, document: OpenApiDocument, swap: () => string): unknown[] {
  const all = (each: Schema) => samplesOf(each, document, swap);
  const one = (each: Schema) => all(each)[0];
  if (schema.$ref) return all(document.components.schemas[schema.$ref.split("/").at(-1)!] as Schema);
  if (schema.const !== undefined) return [schema.const];
  if (schema.enum) return [schema.enum[0]];
  const alternatives = schema.oneOf ?? schema.anyOf;
  if (alternatives) return alternatives.flatMap(all);
  if (schema.allOf) return [Object.assign({}, ...schema.allOf.map(one))];
  switch (schema.type) {
    case "string":
      return [swap()];
    case "integer":
    case "number":
      return [schema.minimum ?? 1];
    case "boolean":
      return [true];
    case "array":
      return [[one(schema.items!)]];
    case "object": {
      const value = Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([name, each]) => [name, one(each)]),
      );
      // The keys of a record are also strings from the caller.
      if (typeof schema.additionalProperties === "object") value[swap()] = one(schema.additionalProperties);
      return [value];
    }
    default:
      return [{}];
  }
}
