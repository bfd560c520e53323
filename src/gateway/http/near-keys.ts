import type { FastifyInstance, FastifySchema } from "fastify";
import { z } from "zod";
import { BOUNDS } from "../../config/bounds.ts";
import { nearest } from "../../config/nearest.ts";
import { AppError } from "../../protocol/errors.ts";

/** A shorter key, such as that with which some clients avoid caches, is like too many others. */
const MIN_KEY = 4;

/** The keys of a route's body or query that schemas check; undefined where every key is allowed. */
export function knownKeys(schema: unknown, value: object): readonly string[] | undefined {
  if (schema instanceof z.ZodObject) return Object.keys(schema.shape);
  if (schema instanceof z.ZodPrefault || schema instanceof z.ZodDefault || schema instanceof z.ZodOptional) {
    return knownKeys(schema.unwrap(), value);
  }
  if (!(schema instanceof z.ZodDiscriminatedUnion)) return undefined;
  const { discriminator } = schema.def;
  const kind = (value as Record<string, unknown>)[discriminator];
  const options = schema.options as z.ZodObject<Record<string, z.ZodLiteral>>[];
  const option = options.find(({ shape }) => shape[discriminator]?.value === kind);
  return option && knownKeys(option, value);
}

/**
 * The keys that are nearly known ones. Unknown keys are ignored, but a misspelt key loses a setting that the caller
 * needs, such as the user whose floor a session competes for. If the known key is there too, nothing is missing.
 */
export function misspeltKeys(value: object, known: readonly string[]): { key: string; meant: string }[] {
  const found: { key: string; meant: string }[] = [];
  for (const key of Object.keys(value)) {
    if (found.length === BOUNDS.shownIssues) break;
    if (key.length < MIN_KEY || known.includes(key)) continue;
    const meant = nearest(key, known) ?? nearest(key.replace(/[^A-Za-z0-9]/g, ""), known);
    if (meant !== undefined && !Object.hasOwn(value, meant)) found.push({ key, meant });
  }
  return found;
}

/**
 * @throws AppError `bad_request` that names what each misspelt key may mean. @param part where the keys are, for
 * messages
 */
export function refuseMisspelt(part: string, value: unknown, schema: unknown): void {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return;
  const known = knownKeys(schema, value);
  const misspelt = known ? misspeltKeys(value, known) : [];
  if (misspelt.length === 0) return;
  const issues = misspelt.map(({ key, meant }) => ({ path: `${part}.${key}`, message: `did you mean ${meant}?` }));
  const [{ key, meant }] = misspelt as [{ key: string; meant: string }];
  throw new AppError("bad_request", `There is no ${key}; did you mean ${meant}?`, { facts: { issues } });
}

/**
 * Refuse what a list has no filter for: it would be the whole list. Keys that begin with `_`, with which some clients
 * avoid caches, are ignored.
 *
 * @throws AppError `bad_request`
 */
function refuseStrayFilters(query: unknown, schema: FastifySchema | undefined): void {
  // Clients of other protocols have keys of their own.
  if (!schema?.operationId?.startsWith("list") || schema.tags?.includes("doors")) return;
  const known = schema.querystring === undefined ? [] : knownKeys(schema.querystring, query as object);
  if (!known) return;
  const strays = Object.keys(query as object).filter((key) => !known.includes(key) && !key.startsWith("_"));
  if (strays.length === 0) return;
  const issues = strays
    .slice(0, BOUNDS.shownIssues)
    .map((key) => ({ path: `querystring.${key}`, message: `known here: ${known.join(", ")}` }));
  const filters = known.length === 0 ? "it has no filters" : `it has ${known.join(", ")}`;
  throw new AppError("bad_request", `This list has no ${strays[0]}; ${filters}.`, { facts: { issues } });
}

/** Refuse misspelt keys of every body and query before their schemas ignore them. */
export function guardKeys(app: FastifyInstance): void {
  app.addHook("preValidation", (request, _reply, done) => {
    const { schema } = request.routeOptions;
    try {
      refuseMisspelt("body", request.body, schema?.body);
      refuseMisspelt("querystring", request.query, schema?.querystring);
      refuseStrayFilters(request.query, schema);
    } catch (error) {
      return done(error as AppError);
    }
    done();
  });
}
