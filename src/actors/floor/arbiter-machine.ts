import { enqueueActions, setup } from "xstate";
import type { FloorId } from "../../protocol/ids.ts";
import type { Emitted } from "../facts.ts";
import { sessionMachine } from "../session/session-machine.ts";
import { type ArbiterEvent, arbitrate } from "./arbiter.ts";
import type { ArbiterContext, SeenSessions } from "./arbiter-step.ts";
import { arbiterStateOf, EMPTY_FLOOR } from "./floor-state.ts";

const machine = setup({
  types: {
    context: {} as ArbiterContext,
    events: {} as ArbiterEvent,
    emitted: {} as Emitted,
    input: {} as { floorId: FloorId },
  },
  actors: { session: sessionMachine },
  guards: {
    isHeld: ({ context }) => arbiterStateOf(context.floor) === "held",
    isReserved: ({ context }) => arbiterStateOf(context.floor) === "reserved",
    isFree: ({ context }) => arbiterStateOf(context.floor) === "free",
  },
  actions: {
    arbitrate: enqueueActions(({ context, event, enqueue, self }) => {
      const { children } = self.getSnapshot();
      const sessions: SeenSessions = {
        sessionOf: (id) => children[id]?.getSnapshot().context,
        scheduledCount: () =>
          Object.values(children).filter((child) => child?.getSnapshot().context.schedule !== undefined).length,
      };
      const { context: after, facts, orders } = arbitrate(context, event, sessions);
      if (after !== context) enqueue.assign(after);
      if (facts.length > 0) enqueue.emit({ type: "facts", facts });
      for (const order of orders) {
        if ("spawn" in order) enqueue.spawnChild("session", { id: order.spawn.context.id, input: order.spawn });
        else if ("stop" in order) enqueue.stopChild(order.stop);
        else enqueue.sendTo(order.to, order.event);
      }
    }),
  },
});

/**
 * The arbiter of one floor, as viewers show it: the statecharts of `interlock machines`, and inspectors. A node calls
 * `arbitrate` itself, because its decisions do not depend on the state, which follows from the floor. A test runs both
 * and compares them.
 */
export const arbiterMachine = machine.createMachine({
  id: "arbiter",
  context: ({ input }) => ({ floorId: input.floorId, floor: EMPTY_FLOOR, flags: {} }),
  on: {
    "session.*": { actions: "arbitrate" },
    "run.*": { actions: "arbitrate" },
    "floor.*": { actions: "arbitrate" },
    alarm: { actions: "arbitrate" },
    due: { actions: "arbitrate" },
    hours: { actions: "arbitrate" },
    request: { actions: "arbitrate" },
    left: { actions: "arbitrate" },
    wait_over: { actions: "arbitrate" },
    occurs: { actions: "arbitrate" },
    switched: { actions: "arbitrate" },
    renumber: { actions: "arbitrate" },
  },
  initial: "free",
  states: {
    free: {
      always: [
        { guard: "isHeld", target: "held" },
        { guard: "isReserved", target: "reserved" },
      ],
    },
    held: {
      always: [
        { guard: "isReserved", target: "reserved" },
        { guard: "isFree", target: "free" },
      ],
    },
    reserved: {
      always: [
        { guard: "isHeld", target: "held" },
        { guard: "isFree", target: "free" },
      ],
    },
  },
});
