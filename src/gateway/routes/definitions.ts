import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { BOUNDS } from "../../config/bounds.ts";
import { definedId } from "../../config/catalog/catalog.ts";
import {
  AgentDefinition,
  type DefinitionFault,
  DefinitionPatch,
  findDefinitionFault,
} from "../../config/catalog/definition.ts";
import { AppError } from "../../protocol/errors.ts";
import { AgentId, CommandId, Name } from "../../protocol/ids.ts";
import type { DefinitionStore } from "../../store/store.ts";
import type { IdempotentCommands, Identity } from "../idempotent-commands.ts";
import type { CallerContext, Definitions, Routes } from "../route-context.ts";

/** Attempts of a change that conflicts with another one. After the last attempt the answer is `busy`. */
const MAX_COMMIT_TRIES = 4;

const WithId = z.object({ id: AgentId });
const Keyed = { commandId: CommandId.optional() };
/** Other services bind agents to pages. Ignored, the binding would seem to be kept. */
const Unbound = {
  pageIds: z
    .array(z.unknown())
    .max(0, "is not supported: an agent belongs to a workspace, and Interlock has no pages")
    .nullish(),
};

const ShownDefinition = AgentDefinition.extend({
  id: AgentId.meta({ description: "the agent's id: its name with the workspace's tag" }),
  fault: z
    .string()
    .optional()
    .meta({ description: "why the definition is not an agent now: the catalogue's file has changed" }),
}).meta({ id: "StoredDefinition" });
type ShownDefinition = z.infer<typeof ShownDefinition>;

const Answer = z.object({ success: z.literal(true), definition: ShownDefinition });

/** What these routes depend on. */
interface Context extends CallerContext {
  commands: IdempotentCommands;
  definitions: Definitions;
  store: DefinitionStore;
}

/** Lets operators define agents for a workspace, in the database. */
export function definitionRoutes(app: Routes, context: Context): void {
  const { commands, store, definitions } = context;

  /** Refuse other callers before the body is read. */
  const admitOperator = async (request: FastifyRequest) => {
    const { isOperator } = context.callerOf(request);
    if (!isOperator) throw new AppError("forbidden", "Only operators may define agents.");
  };
  const tags = ["agents"];

  app.get(
    "/agents/definitions",
    {
      onRequest: admitOperator,
      schema: {
        tags,
        operationId: "listDefinitions",
        summary: "List the agents that are defined in the database",
        description: "Ordered by id; for one workspace, or for all. Operators only.",
        querystring: z.object({
          workspaceId: Name.optional(),
          after: AgentId.optional(),
          limit: z.coerce.number().int().min(1).max(200).default(50),
        }),
        response: {
          200: z.object({
            success: z.literal(true),
            definitions: z.array(ShownDefinition),
            hasMore: z.boolean(),
          }),
        },
      },
    },
    async (request) => {
      const { workspaceId, after = "", limit } = request.query;
      await definitions.refresh();
      const found = definitions
        .all()
        .filter(
          ({ id, definition }) => id > after && (workspaceId ?? definition.workspaceId) === definition.workspaceId,
        );
      const page: ShownDefinition[] = [];
      let bytes = 0;
      for (const { id, definition } of found) {
        if (page.length >= limit || bytes >= BOUNDS.pageBytes) break;
        page.push(shown(id, definition));
        bytes += Buffer.byteLength(JSON.stringify(definition));
      }
      return { success: true as const, definitions: page, hasMore: found.length > page.length };
    },
  );

  app.post(
    "/agents/definitions",
    {
      onRequest: admitOperator,
      schema: {
        tags,
        operationId: "createDefinition",
        summary: "Define an agent for a workspace",
        description:
          "The agent uses the model of an agent of the catalogue's file, and at most its tools. Sessions of the workspace refer to it by name. Operators only.",
        body: AgentDefinition.extend({ ...Keyed, ...Unbound }).strict(),
        response: { 200: Answer },
      },
    },
    async (request) => {
      const { commandId: _, pageIds: __, ...definition } = request.body;
      const id = definedId(definition.name, definition.workspaceId);
      return await write(await identify(request), id, (before) => {
        if (before) {
          throw faultOf({ path: "name", message: `the workspace already has an agent ${definition.name}` });
        }
        checkRoom(definition.workspaceId);
        return definition;
      });
    },
  );

  app.get(
    "/agents/definitions/:id",
    {
      onRequest: admitOperator,
      schema: {
        tags,
        operationId: "getDefinition",
        summary: "Read a definition",
        description: "Operators only.",
        params: WithId,
        response: { 200: Answer },
      },
    },
    async (request) => {
      await definitions.refresh();
      const stored = definitions.all().find(({ id }) => id === request.params.id);
      if (!stored) throw new AppError("agent_not_found");
      return { success: true as const, definition: shown(stored.id, stored.definition) };
    },
  );

  app.patch(
    "/agents/definitions/:id",
    {
      onRequest: admitOperator,
      schema: {
        tags,
        operationId: "changeDefinition",
        summary: "Change, disable or enable a defined agent",
        description:
          "Omitted settings stay unchanged; null resets a setting to that of the catalogue's agent. A running turn keeps its settings. Operators only.",
        params: WithId,
        body: DefinitionPatch.extend({ ...Keyed, ...Unbound })
          .strict()
          .prefault({}),
        response: { 200: Answer },
      },
    },
    async (request) => {
      const { commandId: _, pageIds: __, ...patch } = request.body;
      return await write(await identify(request), request.params.id, (before) => {
        if (!before) throw new AppError("agent_not_found");
        return patched(before, patch);
      });
    },
  );

  app.delete(
    "/agents/definitions/:id",
    {
      onRequest: admitOperator,
      schema: {
        tags,
        operationId: "deleteDefinition",
        summary: "Delete a defined agent",
        description:
          "Its sessions remain, and need another agent. The answer for an unknown definition is `deleted: false`. Operators only.",
        params: WithId,
        body: z.strictObject(Keyed).prefault({}),
        response: { 200: z.object({ success: z.literal(true), deleted: z.boolean() }) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const identity = await identify(request);
      const deleting = record(identity, id, (before) => {
        if (!before) throw new AppError("agent_not_found");
        return { answer: { deleted: true }, body: undefined };
      });
      const { deleted } = await deleting.catch((error) => {
        if (error instanceof AppError && error.code === "agent_not_found") return { deleted: false };
        throw error;
      });
      await definitions.announce();
      return { success: true as const, deleted };
    },
  );

  async function identify(request: FastifyRequest): Promise<Identity> {
    return await commands.identify(context.callerOf(request), request, request.body as object);
  }

  /** Save the result of `edit`, and answer after the change was announced to all nodes. */
  async function write(
    identity: Identity,
    id: AgentId,
    edit: (before: AgentDefinition | undefined) => AgentDefinition,
  ): Promise<z.infer<typeof Answer>> {
    const { definition } = await record(identity, id, (before) => {
      const edited = edit(before);
      const fault = findDefinitionFault(definitions.file(), edited);
      if (fault) throw faultOf(fault);
      return { answer: { definition: shown(id, edited) }, body: JSON.stringify(edited) };
    });
    await definitions.announce();
    return { success: true, definition };
  }

  /** Store what `change` makes of the definition, and its answer; again with the newest one if it changed meanwhile. */
  async function record<A extends object>(
    identity: Identity,
    id: AgentId,
    change: (before: AgentDefinition | undefined) => { answer: A; body: string | undefined },
  ): Promise<A> {
    const read = async () => {
      await definitions.refresh();
      return definitions.all().find((each) => each.id === id);
    };
    return await commands.record<A>(identity, async (receiptOf) => {
      for (let tries = 0; tries < MAX_COMMIT_TRIES; tries++) {
        const stored = await read();
        const expected = stored?.version ?? 0;
        const { answer, body } = change(stored?.definition);
        const saved = await store.changeDefinition({ id, expected, body, receipt: receiptOf(answer) });
        if (saved === "saved") return answer;
        // If the definition is still the same, its key was used meanwhile.
        if (((await read())?.version ?? 0) === expected) throw new AppError("idempotency_mismatch");
      }
      throw new AppError("busy");
    });
  }

  function shown(id: AgentId, definition: AgentDefinition): ShownDefinition {
    const fault = findDefinitionFault(definitions.file(), definition);
    return { id, ...definition, ...(fault && { fault: fault.message }) };
  }

  function checkRoom(workspaceId: string): void {
    const all = definitions.all();
    const ofWorkspace = all.filter(({ definition }) => definition.workspaceId === workspaceId).length;
    if (ofWorkspace < BOUNDS.workspaceDefinitions && all.length < BOUNDS.definitions) return;
    throw new AppError(
      "too_large",
      `The workspace has ${BOUNDS.workspaceDefinitions} defined agents, or the store ${BOUNDS.definitions}, the maximum. Delete one first.`,
    );
  }
}

function patched(before: AgentDefinition, patch: z.infer<typeof DefinitionPatch>): AgentDefinition {
  const entries = Object.entries({ ...before, ...patch }).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(entries) as AgentDefinition;
}

function faultOf({ path, message }: DefinitionFault): AppError {
  const issues = [{ path: `body.${path}`, message }];
  return new AppError("bad_request", `${message[0]!.toUpperCase()}${message.slice(1)}.`, { facts: { issues } });
}
