import type { AnyStateMachine, AnyStateNode, StateValue } from "xstate";

/**
 * An XState machine as a table: state × event → guards, actions, next state. The XState machine stays the only
 * description: `table-compiler.ts` makes the table of it, and `machine-player.ts` plays it.
 */
export interface MachineTable {
  readonly machine: AnyStateMachine;
  /** Every state that the machine can be in. */
  readonly configurations: readonly Configuration[];
  /** The initial state, before any `always` transition. */
  readonly initial: Configuration;
  /** @throws RangeError if the machine has no such state */
  at(value: unknown): Configuration;
  /** The edges for an event of this type. */
  rowOf(at: Configuration, eventType: string): Row;
  /** The state that results when these edges are followed. */
  after(at: Configuration, edges: readonly Edge[]): Configuration;
}

/** A state of a machine: one state per region. */
export interface Configuration {
  readonly value: StateValue;
  readonly leaves: readonly AnyStateNode[];
  /** By event type; added when a type first occurs. */
  readonly rows: Map<string, Row>;
  /** The `always` edges, tried after every event. */
  always: Row;
}

/** The edges of each region, in the order in which they are tried; the first open one is taken. */
export interface Row {
  readonly regions: readonly (readonly Edge[])[];
  /** Edges of the machine's root, tried if no region has an open edge. */
  readonly whole: readonly Edge[];
}

/** A transition. */
export interface Edge {
  readonly region: number;
  /** Undefined: always open. */
  readonly guard: Guard | undefined;
  /** The target state; undefined: the state does not change. */
  readonly target: AnyStateNode | undefined;
  readonly work: readonly Work[];
}

export interface Guard {
  readonly name: string;
  readonly params: unknown;
  readonly test: (about: { context: unknown; event: unknown }, params: unknown) => boolean;
}

/** What an action makes of an event. What else is in it is for the machine's user. */
export interface Effect<Context> {
  /** The same object as before if the action does not change it. */
  readonly context: Context;
}

/** A pure action of the machine. For XState, the action's function carries the same effect out. */
export interface Work {
  readonly name: string;
  readonly params: unknown;
  readonly effectOf: (context: unknown, event: unknown, params: unknown) => Effect<unknown>;
}
