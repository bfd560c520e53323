/** The part of JSON Schema that the schemas of events use. */
export interface Schema {
  type?: string;
  properties?: Readonly<Record<string, Schema>>;
  required?: readonly string[];
  /** Of the values of fields that `properties` does not have. */
  additionalProperties?: Schema;
  items?: Schema;
  enum?: readonly unknown[];
  const?: unknown;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  exclusiveMinimum?: number;
  maximum?: number;
  anyOf?: readonly Schema[];
  $ref?: string;
  $defs?: Readonly<Record<string, Schema>>;
}

/** The keywords that are checked as they stand; those with schemas in them are listed in `Schema` only. */
export const KEYWORDS: ReadonlySet<string> = new Set([
  "type",
  "required",
  "enum",
  "const",
  "pattern",
  "minLength",
  "maxLength",
  "minimum",
  "exclusiveMinimum",
  "maximum",
  "$ref",
]);

/** The last moment that a date can be, in ms since 1970. */
export const MAX_TIME = 8.64e15;

/** Of a saved log: its floor's id, the fields of every event, and the data of each type of event. */
export interface LogSchema {
  floorId: Schema;
  event: Schema;
  data: Readonly<Record<string, Schema>>;
  $defs: Readonly<Record<string, Schema>>;
}

/** The first wrong field: where it is, such as `data.agent.path.0`, and what it must be. */
export interface SchemaFault {
  path: string;
  expected: string;
}

/** Find the first field of a value that its schema does not allow; unknown fields are allowed. */
export function schemaFault(
  value: unknown,
  schema: Schema,
  definitions: LogSchema["$defs"],
  path = "",
): SchemaFault | undefined {
  const { $ref, anyOf } = schema;
  const again = (of: Schema) => schemaFault(value, of, definitions, path);
  if ($ref !== undefined) return again(definitions[$ref.slice("#/$defs/".length)]!);
  if (anyOf) {
    const faults = anyOf.map(again);
    return faults.includes(undefined) ? undefined : { path, expected: joined(faults.map((each) => each!.expected)) };
  }
  const expected = wrongValue(value, schema);
  if (expected !== undefined) return { path, expected };
  for (const [key, each, of] of partsOf(value, schema)) {
    const fault = schemaFault(each, of, definitions, path === "" ? key : `${path}.${key}`);
    if (fault) return fault;
  }
  return undefined;
}

const joined = (choices: readonly string[]): string => choices.join(" | ");

/** The parts of an array or an object that have a schema: the key, the value and the schema. */
function partsOf(value: unknown, schema: Schema): [string, unknown, Schema][] {
  const { items, properties = {}, required = [], additionalProperties } = schema;
  if (typeof value !== "object" || value === null) return [];
  const fields = Object.entries(value);
  if (Array.isArray(value)) return items ? fields.map(([key, each]) => [key, each, items]) : [];
  const own = new Map(fields);
  const named = Object.entries(properties).flatMap(([key, of]): [string, unknown, Schema][] => {
    // A field that is missing is undefined, which no type allows.
    if (!own.has(key)) return required.includes(key) ? [[key, undefined, { type: "unknown", ...of }]] : [];
    return [[key, own.get(key), of]];
  });
  if (!additionalProperties) return named;
  return [...named, ...fields.map(([key, each]): [string, unknown, Schema] => [key, each, additionalProperties])];
}

/** What the value itself must be, if it is not that; its parts are not looked at. */
function wrongValue(value: unknown, schema: Schema): string | undefined {
  if (!isOfType(value, schema.type)) return schema.type;
  if (schema.const !== undefined && value !== schema.const) return JSON.stringify(schema.const);
  if (schema.enum?.includes(value) === false) return joined(schema.enum.map((each) => JSON.stringify(each)));
  if (typeof value === "string") return wrongText(value, schema);
  return typeof value === "number" ? wrongNumber(value, schema) : undefined;
}

function isOfType(value: unknown, type: string | undefined): boolean {
  switch (type) {
    case undefined:
      return true;
    case "integer":
      return Number.isInteger(value);
    case "number":
      return Number.isFinite(value);
    case "array":
      return Array.isArray(value);
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    case "null":
      return value === null;
    default:
      return typeof value === type;
  }
}

function wrongText(value: string, { pattern, minLength = 0, maxLength }: Schema): string | undefined {
  if (pattern !== undefined && !new RegExp(pattern, "u").test(value)) return `/${pattern}/`;
  const isWithin = value.length >= minLength && value.length <= (maxLength ?? Number.POSITIVE_INFINITY);
  return isWithin ? undefined : `string, ${minLength}–${maxLength ?? "…"}`;
}

function wrongNumber(value: number, { type, minimum, exclusiveMinimum, maximum }: Schema): string | undefined {
  const isWithin =
    value >= (minimum ?? Number.NEGATIVE_INFINITY) &&
    value > (exclusiveMinimum ?? Number.NEGATIVE_INFINITY) &&
    value <= (maximum ?? Number.POSITIVE_INFINITY);
  return isWithin ? undefined : `${type}, ${minimum ?? exclusiveMinimum ?? "…"}–${maximum ?? "…"}`;
}
