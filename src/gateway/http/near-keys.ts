import type { FastifyInstance, FastifySchema, preValidationHookHandler } from "fastify";
import { z } from "zod";
import { BOUNDS } from "../../config/bounds.ts";
import { nearest } from "../../config/nearest.ts";
import { AppError } from "../../protocol/errors.ts";

/** A shorter key, such as that with which some clients avoid caches, is like too many others. */
const MIN_KEY = 3;
/** Words that differ from a known key in a letter or two, or that begin one. */
const OTHER_WORDS: ReadonlySet<string> = new Set(
  "sessions use used users uses work workplace workplaces works workspaces zines zoned zones".split(" "),
);
/** A longer key is cut in messages. */
const MAX_SHOWN_KEY = 64;

/** By union: its objects, by the value of their discriminator. */
const OPTIONS = new WeakMap<z.ZodDiscriminatedUnion, ReadonlyMap<unknown, z.ZodObject>>();

/** The object of a schema that checks the value; undefined if no single one does. */
function objectFor(schema: unknown, value: object): z.ZodObject | undefined {
  const inner = unwrapped(schema);
  if (inner instanceof z.ZodObject) return inner;
  if (!(inner instanceof z.ZodDiscriminatedUnion)) return undefined;
  const { discriminator } = inner.def;
  let options = OPTIONS.get(inner);
  if (!options) {
    const objects = inner.options as z.ZodObject<Record<string, z.ZodLiteral>>[];
    options = new Map(objects.map((each) => [each.shape[discriminator]?.value, each]));
    OPTIONS.set(inner, options);
  }
  return options.get((value as Record<string, unknown>)[discriminator]);
}

/** By schema: what `unwrapped` found. */
const UNWRAPPED = new WeakMap<z.ZodType, unknown>();

/** A schema without what may stand in for an absent value, and without what is done to a present one. */
function unwrapped(schema: unknown): unknown {
  if (!(schema instanceof z.ZodType)) return schema;
  if (!UNWRAPPED.has(schema)) UNWRAPPED.set(schema, unwrap(schema));
  return UNWRAPPED.get(schema);
}

function unwrap(schema: z.ZodType): unknown {
  if (schema instanceof z.ZodPipe) return unwrapped(schema.in);
  const isWrapper =
    schema instanceof z.ZodPrefault ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodNullable;
  return isWrapper ? unwrapped(schema.unwrap()) : schema;
}

/** The known key that a key probably means. */
function meantBy(key: string, known: readonly string[]): string | undefined {
  if (key.length < MIN_KEY) return undefined;
  const bare = key.replace(/[^A-Za-z0-9]/g, "");
  const named = bare.replace(/(id|name)$/i, "").toLowerCase();
  // A `user_id` is what other protocols call a `user`.
  return nearest(key, known) ?? nearest(bare, known) ?? known.find((each) => each.toLowerCase() === named);
}

/** Whether a key is a word of its own, which only looks like a known key, as `tone` and `users` do. */
const isOtherWord = (key: string, known: string): boolean =>
  key[0]!.toLowerCase() !== known[0]!.toLowerCase() || OTHER_WORDS.has(key.toLowerCase());

/**
 * Refuse keys that are nearly known ones. Queries and the bodies of other protocols may have further keys, but a
 * misspelt key loses a setting that the caller needs, such as the user whose floor a session competes for. If the known
 * key is there too, nothing is missing. Clients have keys of their own: a word of the language is no misspelling.
 *
 * @param part where the keys are, for messages
 * @param isGiven whether a known key is there, so that nothing is missing; default: in the value
 * @throws AppError `bad_request` that names what each misspelt key may mean
 */
export function refuseMisspelt(
  part: string,
  value: unknown,
  schema: unknown,
  isGiven: (key: string) => boolean = (key) => Object.hasOwn(value as object, key),
): void {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return;
  const fields = objectFor(schema, value)?.shape;
  if (!fields) return;
  const issues: { path: string; message: string }[] = [];
  let first = "";
  for (const key in value) {
    if (issues.length === BOUNDS.shownIssues) break;
    const meant = Object.hasOwn(fields, key) ? undefined : meantBy(key, Object.keys(fields));
    if (meant === undefined || isOtherWord(key, meant) || isGiven(meant)) continue;
    first ||= `There is no ${key}; did you mean ${meant}?`;
    issues.push({ path: `${part}.${key}`, message: `did you mean ${meant}?` });
  }
  if (issues.length > 0) throw new AppError("bad_request", first, { facts: { issues } });
}

/**
 * Refuse what a query has no parameter for: without it the answer would be another one, such as a whole list. Streams
 * are open, because clients of event streams add keys of their own. Keys that begin with `_`, with which some clients
 * avoid caches, are ignored.
 *
 * @throws AppError `bad_request`
 */
function refuseStrayParameters(query: unknown, schema: FastifySchema | undefined): void {
  // Clients of other protocols have keys of their own.
  if (!schema || schema.tags?.some((tag) => tag === "doors" || tag === "streams")) return;
  const isList = schema.operationId?.startsWith("list") === true;
  if (!isList && schema.querystring === undefined) return;
  const fields = schema.querystring === undefined ? {} : objectFor(schema.querystring, query as object)?.shape;
  if (!fields) return;
  const known = Object.keys(fields);
  const strays = Object.keys(query as object).filter((key) => !known.includes(key) && !key.startsWith("_"));
  if (strays.length === 0) return;
  const message = known.length === 0 ? "no parameter is known here" : `known here: ${known.join(", ")}`;
  const issues = strays.slice(0, BOUNDS.shownIssues).map((key) => ({ path: `querystring.${key}`, message }));
  const parameters = known.length === 0 ? "it has no filters" : `it has ${known.join(", ")}`;
  const what = isList ? "This list" : "This route";
  throw new AppError("bad_request", `${what} has no ${strays[0]}; ${parameters}.`, { facts: { issues } });
}

interface Stray {
  path: string;
  key: string;
  known: readonly string[];
  meant: string | undefined;
}

/**
 * Note the fields of a value that its schema's strict objects do not know, also within lists and other objects. Within
 * strict objects, other objects may have further fields, but not one that is nearly one that is absent; nor may a value
 * that does not say which object of a union it is.
 * @param isWithin whether the value is part of a strict object
 */
function findStrays(value: unknown, schema: unknown, path: string, found: Stray[], isWithin = false): void {
  if (typeof value !== "object" || value === null || found.length === BOUNDS.shownIssues) return;
  if (!Array.isArray(value)) return findStraysOf(value as Record<string, unknown>, schema, path, found, isWithin);
  const list = unwrapped(schema);
  if (!(list instanceof z.ZodArray)) return;
  for (const [index, each] of value.entries()) findStrays(each, list.element, `${path}.${index}`, found, isWithin);
}

function findStraysOf(
  value: Record<string, unknown>,
  schema: unknown,
  path: string,
  found: Stray[],
  isWithin: boolean,
): void {
  const object = objectFor(schema, value);
  const fields: Record<string, unknown> = object?.shape ?? fieldsOfUnion(schema);
  const isStrict = object?.def.catchall instanceof z.ZodNever;
  const isJudged = isWithin || isOfNoKind(value, schema);
  const isMisspelt = (meant: string | undefined) => isJudged && meant !== undefined && !Object.hasOwn(value, meant);
  for (const key in value) {
    if (Object.hasOwn(fields, key)) continue;
    const known = Object.keys(fields);
    const meant = meantBy(key, known);
    if (!isStrict && !isMisspelt(meant)) continue;
    found.push({ path: `${path}.${shortened(key)}`, key: shortened(key), known, meant });
    if (found.length === BOUNDS.shownIssues) return;
  }
  for (const key in object?.shape)
    if (typeof value[key] === "object")
      findStrays(value[key], fields[key], `${path}.${key}`, found, isWithin || isStrict);
}

/** Whether a value lacks the field that says which object of a union it is. Its misspelt fields may tell why. */
function isOfNoKind(value: object, schema: unknown): boolean {
  const inner = unwrapped(schema);
  return inner instanceof z.ZodDiscriminatedUnion && !Object.hasOwn(value, inner.def.discriminator);
}

/** The fields of all objects of which a value may be one. */
function fieldsOfUnion(schema: unknown): Record<string, unknown> {
  const inner = unwrapped(schema);
  if (!(inner instanceof z.ZodUnion)) return {};
  return Object.assign({}, ...inner.options.map((option) => (option instanceof z.ZodObject ? option.shape : {})));
}

const shortened = (key: string): string => (key.length > MAX_SHOWN_KEY ? `${key.slice(0, MAX_SHOWN_KEY)}…` : key);

/**
 * Refuse fields that a body does not have: ignored, they would lose what the caller wants, such as a guard. Bodies of
 * other protocols have no strict schemas.
 *
 * @throws AppError `bad_request` that names each field, and what it may mean
 */
function refuseStrayFields(body: unknown, schema: unknown): void {
  const strays: Stray[] = [];
  findStrays(body, schema, "body", strays);
  const [first] = strays;
  if (!first) return;
  const hint = ({ known, meant }: Stray): string => {
    if (meant !== undefined) return `did you mean ${meant}?`;
    return known.length === 0 ? "no field is known here" : `known here: ${known.join(", ")}`;
  };
  const issues = strays.map((stray) => ({ path: stray.path, message: hint(stray) }));
  const end = first.meant === undefined ? "." : "";
  throw new AppError("bad_request", `There is no ${first.key}; ${hint(first)}${end}`, { facts: { issues } });
}

/** Refuse what bodies and queries do not have, before their schemas judge the rest. */
export function guardKeys(app: FastifyInstance): void {
  const guard: preValidationHookHandler = (request, _reply, done) => {
    const { schema } = request.routeOptions;
    try {
      refuseStrayFields(request.body, schema?.body);
      refuseMisspelt("body", request.body, schema?.body);
      refuseMisspelt("querystring", request.query, schema?.querystring);
      refuseStrayParameters(request.query, schema);
    } catch (error) {
      return done(error as AppError);
    }
    done();
  };
  // After the route's own hooks, which may complete a body.
  app.addHook("onRoute", (route) => {
    route.preValidation = [...[route.preValidation ?? []].flat(), guard];
  });
}
