import type { AnyStateMachine, ContextFrom, EventFrom, InputFrom } from "xstate";
import type { Configuration, Edge, Row } from "./machine-table.ts";
import { compileMachine } from "./table-compiler.ts";

/** A machine's state and context; immutable. */
export interface MachineState<Context> {
  readonly at: Configuration;
  readonly context: Context;
}

/** The result of one event. */
export interface MachineStep<Context> {
  /** The same object as before if nothing changed. */
  readonly state: MachineState<Context>;
  /** Emitted events, in order. */
  readonly emitted: readonly unknown[];
  /** Carry them out in this order, after the machine has its new state. */
  readonly orders: readonly Order[];
}

/** An event that the machine sends. */
export interface Order {
  readonly to: "parent" | "self";
  readonly event: { type: string };
}

const NONE: readonly never[] = Object.freeze([]);
/** The most `always` steps after one event; XState has no such limit. */
const MAX_ALWAYS = 100;

/** The methods of XState's `enqueue` that Interlock's machines use. */
class Enqueue {
  /** What `sendTo` sends to: a machine sends to itself and to its parent only. */
  readonly self = {};
  context: unknown;
  emitted: unknown[] | undefined;
  orders: Order[] | undefined;

  readonly assign = (values: object): void => {
    for (const key in values) {
      if (typeof values[key as keyof object] === "function") throw new TypeError(`assign: ${key} is a function`);
    }
    this.context = { ...(this.context as object), ...values };
  };

  readonly emit = (event: unknown): void => {
    this.emitted ??= [];
    this.emitted.push(event);
  };

  readonly sendParent = (event: { type: string }): void => this.#order({ to: "parent", event });

  readonly sendTo = (target: unknown, event: { type: string }): void => {
    const receiver = typeof target === "function" ? target({ context: this.context, self: this.self }) : target;
    if (receiver !== this.self) throw new TypeError("sendTo: a machine sends to itself and to its parent only");
    this.#order({ to: "self", event });
  };

  #order(order: Order): void {
    this.orders ??= [];
    this.orders.push(order);
  }
}

/**
 * Plays a machine by its table, with the same results as XState: plain state in, plain state out. A player keeps
 * nothing between events, so one player serves all instances of a machine.
 */
export class MachinePlayer<Machine extends AnyStateMachine> {
  readonly table;
  readonly #enqueue = new Enqueue();

  /** @throws UnknownToTable */
  constructor(machine: Machine) {
    this.table = compileMachine(machine);
  }

  start(input: InputFrom<Machine>): MachineStep<ContextFrom<Machine>> {
    const { config } = this.table.machine as unknown as { config: { context?: unknown } };
    const context = typeof config.context === "function" ? config.context({ input }) : (config.context ?? {});
    this.#open(context);
    const event = { type: "xstate.init", input };
    return this.#close(undefined, this.#stabilize(this.table.initial, event));
  }

  /** @throws the exception of one of the machine's actions; `state` is unchanged */
  step(state: MachineState<ContextFrom<Machine>>, event: EventFrom<Machine>): MachineStep<ContextFrom<Machine>> {
    this.#open(state.context);
    const selected = this.#select(this.table.rowOf(state.at, (event as { type: string }).type), event);
    const at = selected.length === 0 ? state.at : this.#move(state.at, selected, event);
    return this.#close(state, this.#stabilize(at, event));
  }

  /** @throws RangeError if the machine has no such state */
  restore(value: unknown, context: ContextFrom<Machine>): MachineState<ContextFrom<Machine>> {
    return { at: this.table.at(value), context };
  }

  /** Take `always` transitions until none is open, or one changes nothing. */
  #stabilize(from: Configuration, event: { type: string }): Configuration {
    let at = from;
    for (let count = 0; count < MAX_ALWAYS; count++) {
      const { context } = this.#enqueue;
      const selected = this.#select(at.always, event);
      if (selected.length === 0) return at;
      const next = this.#move(at, selected, event);
      if (next === at && this.#enqueue.context === context) return at;
      at = next;
    }
    throw new RangeError(
      `machine ${this.table.machine.id} takes more than ${MAX_ALWAYS} "always" steps after ${event.type}`,
    );
  }

  /** Select the transitions of all regions before any of them is carried out. */
  #select({ regions, whole }: Row, event: { type: string }): readonly Edge[] {
    let selected: Edge[] | undefined;
    for (const edges of regions) {
      const edge = this.#firstOpen(edges, event);
      if (!edge) continue;
      if (selected) selected.push(edge);
      else selected = [edge];
    }
    if (selected) return selected;
    const edge = this.#firstOpen(whole, event);
    return edge ? [edge] : NONE;
  }

  #firstOpen(edges: readonly Edge[], event: { type: string }): Edge | undefined {
    for (const edge of edges) {
      const { guard } = edge;
      if (!guard || guard.test({ context: this.#enqueue.context, event }, guard.params)) return edge;
    }
    return undefined;
  }

  /** Run the transitions' actions, from the first region to the last. */
  #move(at: Configuration, edges: readonly Edge[], event: { type: string }): Configuration {
    const enqueue = this.#enqueue;
    for (const { work } of edges) {
      for (const { collect, params } of work) {
        collect({ context: enqueue.context, event, enqueue, self: enqueue.self }, params);
      }
    }
    return this.table.after(at, edges);
  }

  #open(context: unknown): void {
    this.#enqueue.context = context;
    this.#enqueue.emitted = undefined;
    this.#enqueue.orders = undefined;
  }

  #close(before: MachineState<ContextFrom<Machine>> | undefined, at: Configuration): MachineStep<ContextFrom<Machine>> {
    const { context, emitted = NONE, orders = NONE } = this.#enqueue;
    const state = before?.at === at && before.context === context ? before : { at, context: context as never };
    return { state, emitted, orders };
  }
}
