import { z } from "zod";
import { BOUNDS } from "../config/bounds.ts";
import { Decision } from "../protocol/decision.ts";
import { AppError } from "../protocol/errors.ts";
import { AgentId, CommandId, type FloorId, parseFloorId, SessionId } from "../protocol/ids.ts";
import { logPosition } from "../protocol/position.ts";
import { Session } from "../protocol/session.ts";
import type { Store } from "../store/store.ts";
import { type Caller, checkFloor } from "./auth.ts";
import type { Door, Routes } from "./door.ts";

/** Paused sessions that a floor's view shows; a user may have thousands that wait for nobody. */
const SHOWN_SESSIONS = 200;
/** Context flags of a floor, and the length of their names. */
const MAX_FLAGS = 32;

const Params = z.object({ id: z.string().max(2_600) });
const Keyed = z.object({ commandId: CommandId.optional() }).default({});
const Archived = z.object({ success: z.literal(true), archived: z.array(SessionId) });
const FLAG = /^[a-z0-9_-]{1,64}$/;
/** Every other field is a flag; none is called like the key. */
const Flags = z
  .object({ commandId: CommandId.optional() })
  .catchall(z.boolean())
  .refine(({ commandId: _, ...flags }) => Object.keys(flags).every((name) => FLAG.test(name)), "1 to 64 of a-z 0-9 _ -")
  .refine(({ commandId: _, ...flags }) => Object.keys(flags).length <= MAX_FLAGS, `at most ${MAX_FLAGS} flags`);

/** Floors: who has one, what was decided, and what an operator may do to it. */
export function floorRoutes(app: Routes, door: Door): void {
  const { commands, store } = door;

  app.get(
    "/floor/:id",
    {
      schema: {
        params: Params,
        response: {
          200: z.object({
            success: z.literal(true),
            floorId: z.string(),
            holder: Session.nullable(),
            paused: z.array(Session),
            queued: z.array(Session),
            flags: z.record(z.string(), z.boolean()),
            decisions: z.array(Decision),
            position: z.string(),
          }),
        },
      },
    },
    async (request) => {
      const floorId = await floorIdOf(await door.authenticate(request), request.params.id, store);
      const limits = { sessions: SHOWN_SESSIONS, decisions: BOUNDS.shownDecisions };
      const { holder = null, paused, queued, flags, decisions, head } = await store.viewFloor(floorId, limits);
      const position = logPosition(store.epoch, head);
      return { success: true as const, floorId, holder, paused, queued, flags, decisions, position };
    },
  );

  for (const [path, type] of [
    ["stop", "floor.stop"],
    ["stop-all", "floor.stop_all"],
  ] as const) {
    app.post(
      `/floor/:id/${path}`,
      { schema: { params: Params, body: Keyed, response: { 200: Archived } } },
      async (request) => {
        const caller = await door.authenticate(request);
        const floorId = await floorIdOf(caller, request.params.id, store);
        const identity = commands.identify(caller, request, request.body);
        const { archived = [] } = await commands.ask(floorId, { type }, identity);
        return { success: true as const, archived };
      },
    );
  }

  app.put(
    "/floor/:id/flags",
    {
      schema: {
        params: Params,
        body: Flags,
        response: { 200: z.object({ success: z.literal(true), flags: z.record(z.string(), z.boolean()) }) },
      },
    },
    async (request) => {
      const caller = await door.authenticate(request);
      const floorId = await floorIdOf(caller, request.params.id, store);
      if (!caller.isOperator) throw new AppError("forbidden", "Only operators set flags.");
      const identity = commands.identify(caller, request, request.body);
      const { commandId: _, ...wanted } = request.body;
      const { flags = {} } = await commands.ask(floorId, { type: "floor.flags", flags: wanted }, identity);
      return { success: true as const, flags };
    },
  );

  app.post(
    "/floor/:id/what-if",
    {
      schema: {
        params: Params,
        body: z.object({ agentId: AgentId }),
        response: { 200: z.object({ success: z.literal(true), decision: Decision }) },
      },
    },
    async (request) => {
      const floorId = await floorIdOf(await door.authenticate(request), request.params.id, store);
      const whatIf = { type: "floor.what_if" as const, agentId: request.body.agentId };
      const { decision } = await commands.look(floorId, whatIf, request.trace);
      return { success: true as const, decision: decision! };
    },
  );
}

/** @throws AppError `bad_request` for what is no floor id, `not_found` for another's */
export async function floorIdOf(caller: Caller, text: string, store: Pick<Store, "whereIs">): Promise<FloorId> {
  const floorId = parseFloorId(text);
  if (!floorId) {
    const issues = [{ path: "params.id", message: "u:<user>, u:<user>/<zone> or s:<session>" }];
    throw new AppError("bad_request", undefined, { facts: { issues } });
  }
  await checkFloor(caller, floorId, store);
  return floorId;
}
