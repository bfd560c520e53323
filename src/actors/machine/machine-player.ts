import type { AnyStateMachine, ContextFrom, EventFrom, InputFrom } from "xstate";
import { type Configuration, type Edge, type Effect, MachineTable, type Row } from "./table-compiler.ts";

/** A machine's state and context; immutable. */
export interface MachineState<Context> {
  readonly at: Configuration;
  readonly context: Context;
}

/** The result of one event. */
export interface MachineStep<Context, E> {
  /** The same object as before if nothing changed. */
  readonly state: MachineState<Context>;
  /** Of the machine's actions, in order. */
  readonly effects: readonly E[];
}

const NONE: readonly never[] = Object.freeze([]);
/** The most `always` steps after one event; XState has no such limit. */
const MAX_ALWAYS = 100;

/**
 * Plays a machine by its table, with the same results as XState: plain state in, plain state out. A player keeps
 * nothing between events, so one player serves all instances of a machine.
 */
export class MachinePlayer<Machine extends AnyStateMachine, E extends Effect<ContextFrom<Machine>>> {
  readonly table;

  /** @throws UnknownToTable */
  constructor(machine: Machine) {
    this.table = new MachineTable(machine);
  }

  start(input: InputFrom<Machine>): MachineStep<ContextFrom<Machine>, E> {
    const { config } = this.table.machine as unknown as { config: { context?: unknown } };
    const context = typeof config.context === "function" ? config.context({ input }) : (config.context ?? {});
    const event = { type: "xstate.init", input };
    return this.#stabilize({ at: this.table.initial, context }, event, []);
  }

  /** @throws the exception of one of the machine's actions */
  step(state: MachineState<ContextFrom<Machine>>, event: EventFrom<Machine>): MachineStep<ContextFrom<Machine>, E> {
    const effects: E[] = [];
    const row = this.table.rowOf(state.at, (event as { type: string }).type);
    return this.#stabilize(this.#follow(row, state, event, effects), event, effects);
  }

  /** @throws RangeError if the machine has no such state */
  restore(value: unknown, context: ContextFrom<Machine>): MachineState<ContextFrom<Machine>> {
    return { at: this.table.at(value), context };
  }

  /** Take `always` transitions until none is open, or one changes nothing. */
  #stabilize(
    from: MachineState<ContextFrom<Machine>>,
    event: { type: string },
    effects: E[],
  ): MachineStep<ContextFrom<Machine>, E> {
    let state = from;
    for (let count = 0; count < MAX_ALWAYS; count++) {
      const next = this.#follow(state.at.always, state, event, effects);
      if (next === state) return { state, effects };
      state = next;
    }
    throw new RangeError(
      `machine ${this.table.machine.id} takes more than ${MAX_ALWAYS} "always" steps after ${event.type}`,
    );
  }

  /**
   * Take the open transitions of a row, and their actions from the first region to the last.
   * @returns the same state if nothing changes
   */
  #follow(
    row: Row,
    state: MachineState<ContextFrom<Machine>>,
    event: { type: string },
    effects: E[],
  ): MachineState<ContextFrom<Machine>> {
    const edges = select(row, { context: state.context, event });
    if (edges.length === 0) return state;
    let { context } = state;
    for (const { work } of edges) {
      for (const { effectOf, params } of work) {
        const effect = effectOf(context, event, params) as E;
        effects.push(effect);
        context = effect.context;
      }
    }
    const at = this.table.after(state.at, edges);
    return at === state.at && context === state.context ? state : { at, context };
  }
}

type About = { context: unknown; event: { type: string } };

/** Select the transitions of all regions before any of them is carried out. */
function select({ regions, whole }: Row, about: About): readonly Edge[] {
  let selected: Edge[] | undefined;
  for (const edges of regions) {
    const edge = firstOpen(edges, about);
    if (!edge) continue;
    if (selected) selected.push(edge);
    else selected = [edge];
  }
  if (selected) return selected;
  const edge = firstOpen(whole, about);
  return edge ? [edge] : NONE;
}

function firstOpen(edges: readonly Edge[], about: About): Edge | undefined {
  for (const edge of edges) if (!edge.guard || edge.guard.test(about, edge.guard.params)) return edge;
  return undefined;
}
