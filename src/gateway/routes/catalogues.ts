import type { FastifyRequest } from "fastify";
import { z } from "zod";
import type { Catalog } from "../../config/catalog/catalog.ts";
import { compareCatalogs } from "../../config/catalog/catalog-change.ts";
import { decodeCatalogApart } from "../../config/catalog/catalog-file.ts";
import { type Circumstances, findStrays } from "../../policy/circumstances.ts";
import { differenceOf, matrixOf, whyNoMatrix } from "../../policy/matrix.ts";
import { AppError } from "../../protocol/errors.ts";
import { Name, SHORT_NAME, SHORT_NAME_FORM } from "../../protocol/ids.ts";
import { Matrix, MatrixDifference } from "../../protocol/matrix.ts";
import { minuteOf } from "../../shared/wall-clock.ts";
import type { CallerContext, Definitions, Routes } from "../route-context.ts";

const Flag = z.string().regex(SHORT_NAME, SHORT_NAME_FORM);
/** When and for whom the matrix is made; without all of them it has the agents' own priorities. */
const Query = z.object({
  at: z
    .string()
    .refine(
      (text) => minuteOf(text) !== undefined,
      "must be a time from 00:00 to 23:59, perhaps after a day, as in sat 23:30",
    )
    .optional()
    .meta({
      description:
        "HH:MM, or a day and HH:MM as in `sat 23:30`, in the time zone of the first rule or restriction with hours",
    }),
  userId: Name.optional(),
  flag: z
    .union([Flag, z.array(Flag).max(100)])
    .optional()
    .meta({ description: "repeatable: flags that are set on the floor" }),
});

const hash = z.string().meta({ description: "of the catalogue's file in use" });

/**
 * Shows operators who does what to whom in the catalogue's file, and what another file would change. Writes nothing.
 */
export function catalogueRoutes(app: Routes, context: CallerContext & { definitions: Definitions }): void {
  const { definitions } = context;
  /** Refuse other callers before the body is read. */
  const onRequest = async (request: FastifyRequest) => {
    const { isOperator } = context.callerOf(request);
    if (!isOperator) throw new AppError("forbidden", "Only operators may read the catalogue.");
  };

  app.get(
    "/catalogue/matrix",
    {
      onRequest,
      schema: {
        tags: ["agents"],
        operationId: "getMatrix",
        summary: "Read who does what to whom",
        description:
          "For each pair of agents of the catalogue's file, what happens when a session of one requests the floor while a session of the other has it, alone. Operators only.",
        querystring: Query,
        response: { 200: Matrix.extend({ success: z.literal(true), hash }) },
      },
    },
    async (request) => {
      const catalog = definitions.file();
      const circumstances = circumstancesIn(request.query, [catalog]);
      return { success: true as const, hash: catalog.hash, ...matrixOf(catalog, circumstances) };
    },
  );

  app.post(
    "/catalogue/diff",
    {
      onRequest,
      config: { acceptsYaml: true },
      schema: {
        tags: ["agents"],
        operationId: "compareCatalogue",
        summary: "Preview another catalogue",
        description:
          "The body is the text of a catalogue. The answer says what it would change, cell by cell, compared with the file in use; a catalogue with faults is `bad_request` with each fault's line and column. Nothing is written. Operators only.",
        querystring: Query,
        response: {
          200: MatrixDifference.extend({
            success: z.literal(true),
            hash,
            newHash: z.string().meta({ description: "of the catalogue in the body" }),
            changed: z.array(z.string()).meta({ description: "agents whose entries differ" }),
            parts: z.array(z.string()).meta({ description: "other top-level keys that differ" }),
          }),
        },
      },
    },
    async (request) => {
      if (!(request.body instanceof Uint8Array)) {
        throw new AppError("bad_request", "The body must be a catalogue, as application/yaml.");
      }
      const catalog = definitions.file();
      const reading = await decodeCatalogApart(request.body, catalog);
      if (!reading.ok) {
        throw new AppError("bad_request", "The catalogue has faults.", { facts: { faults: reading.faults } });
      }
      const other = reading.catalog;
      const circumstances = circumstancesIn(request.query, [catalog, other]);
      const { changed, parts } = compareCatalogs(catalog, other);
      const difference = differenceOf(catalog, other, circumstances);
      return { success: true as const, hash: catalog.hash, newHash: other.hash, changed, parts, ...difference };
    },
  );
}

/** @throws AppError `bad_request` if a catalogue has too many agents, or none of them names the user or a flag */
function circumstancesIn({ at, userId, flag }: z.infer<typeof Query>, catalogs: readonly Catalog[]): Circumstances {
  const circumstances = { minute: at === undefined ? undefined : minuteOf(at), userId, flags: [flag ?? []].flat() };
  const tooLarge = catalogs.map(whyNoMatrix).find((reason) => reason !== undefined);
  if (tooLarge !== undefined) throw new AppError("bad_request", sentence(tooLarge));
  const [strays = [], ...others] = catalogs.map((catalog) => findStrays(catalog, circumstances));
  const stray = strays.find((each) => others.every((known) => known.includes(each)));
  if (stray !== undefined) throw new AppError("bad_request", sentence(stray));
  return circumstances;
}

const sentence = (text: string) => `${text[0]!.toUpperCase()}${text.slice(1)}${text.endsWith("?") ? "" : "."}`;
