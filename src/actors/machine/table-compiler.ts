import type { AnyStateMachine, AnyStateNode, StateValue } from "xstate";

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

interface Guard {
  readonly params: unknown;
  readonly test: (about: { context: unknown; event: unknown }, params: unknown) => boolean;
}

/** What an action makes of an event. What else is in it is for the machine's user. */
export interface Effect<Context> {
  /** The same object as before if the action does not change it. */
  readonly context: Context;
}

/** A pure action of the machine. For XState, the action's function carries the same effect out. */
interface Work {
  readonly params: unknown;
  readonly effectOf: (context: unknown, event: unknown, params: unknown) => Effect<unknown>;
}

type Transition = NonNullable<AnyStateNode["always"]>[number];

/** The maximum number of states of a table, all combinations of the regions counted. */
const MAX_CONFIGURATIONS = 4_096;
/** The maximum number of cached event types per state; the machines have far fewer. */
const MAX_ROWS = 256;

const UNSUPPORTED = ["after", "invoke", "onDone", "output", "route", "entry", "exit"] as const;

/** The machine uses a feature that the table does not support. */
export class UnknownToTable extends Error {
  constructor(what: string, node: AnyStateNode) {
    super(`${node.id}: the table does not support ${what}`);
    this.name = "UnknownToTable";
  }
}

/**
 * An XState machine as a table: state × event → guards, actions, next state. A machine has states without substates, or
 * parallel regions of them. Every feature that the table does not support is rejected by name, so that a table never
 * behaves differently from XState.
 */
export class MachineTable {
  readonly machine: AnyStateMachine;
  /** The initial state, before any `always` transition. */
  readonly initial: Configuration;
  /** The machine's parallel regions; of a machine without regions, its root. */
  readonly #regions: readonly AnyStateNode[];
  readonly #configurations: ReadonlyMap<string, Configuration>;

  /** @throws UnknownToTable */
  constructor(machine: AnyStateMachine) {
    const { root } = machine;
    checkShape(root);
    this.machine = machine;
    this.#regions = root.type === "parallel" ? Object.values(root.states) : [root];
    this.#configurations = enumerate(root, this.#regions);
    for (const at of this.configurations) {
      at.always = { regions: at.leaves.map(({ always = [] }, region) => this.#edgesOf(always, region)), whole: [] };
    }
    // Unsupported features fail here: rows are compiled later, on first use.
    for (const node of [root, ...this.#regions.flatMap(({ states }) => Object.values(states))]) {
      for (const transition of [...node.transitions.values()].flat()) this.#readEdge(transition);
    }
    this.initial = this.#configurations.get(keyOf(this.#regions.map((region) => region.initial.target[0]!)))!;
  }

  /** Every state that the machine can be in. */
  get configurations(): readonly Configuration[] {
    return [...this.#configurations.values()];
  }

  /** @throws RangeError if the machine has no such state */
  at(value: unknown): Configuration {
    const hasRegions = this.machine.root.type === "parallel";
    const keys = this.#regions.map(({ key }) => (hasRegions ? (value as Record<string, unknown>)?.[key] : value));
    const at = this.#configurations
      .values()
      .find(({ leaves }) => leaves.every(({ key }, region) => key === keys[region]));
    if (!at) throw new RangeError(`machine ${this.machine.id} has no state ${JSON.stringify(value)}`);
    return at;
  }

  /** The edges for an event of this type. */
  rowOf(at: Configuration, type: string): Row {
    const known = at.rows.get(type);
    if (known) return known;
    const row = {
      regions: at.leaves.map((leaf, region) => this.#edgesOf(candidatesOf(leaf, type), region)),
      whole: this.#edgesOf(candidatesOf(this.machine.root, type), 0),
    };
    if (at.rows.size < MAX_ROWS) at.rows.set(type, row);
    return row;
  }

  /** The state that results when these edges are followed. */
  after(at: Configuration, edges: readonly Edge[]): Configuration {
    if (edges.every(({ target }) => target === undefined)) return at;
    const leaves = [...at.leaves];
    for (const { region, target } of edges) if (target) leaves[region] = target;
    return this.#configurations.get(keyOf(leaves))!;
  }

  #edgesOf(transitions: readonly Transition[], region: number): Edge[] {
    const edges = transitions.map((transition) => ({ region, ...this.#readEdge(transition) }));
    // Edges after an edge that is always open are never tried.
    const last = edges.findIndex(({ guard }) => guard === undefined);
    return last < 0 ? edges : edges.slice(0, last + 1);
  }

  #readGuard({ guard, source }: Transition): Guard | undefined {
    if (guard === undefined) return undefined;
    const { name, params, found } = findNamed(guard, this.machine.implementations.guards, "guard", source);
    if ("check" in found) throw new UnknownToTable(`the guard ${name}, which is one of XState's own`, source);
    return { params, test: found as Guard["test"] };
  }

  #readWork({ actions, source }: Transition): Work[] {
    return actions.map((action) => {
      const { name, params, found } = findNamed(action, this.machine.implementations.actions, "action", source);
      if (!("effectOf" in found)) throw new UnknownToTable(`the action ${name}, which has no effectOf`, source);
      return { params, effectOf: found.effectOf as Work["effectOf"] };
    });
  }

  #readEdge(transition: Transition): Omit<Edge, "region"> {
    const { source, reenter } = transition;
    const [target, second] = (transition.target ?? []) as AnyStateNode[];
    const [guard, work] = [this.#readGuard(transition), this.#readWork(transition)];
    if (reenter) throw new UnknownToTable("a transition that reenters", source);
    if (second) throw new UnknownToTable("a transition with several targets", source);
    if (target && (!source.parent || target.parent !== source.parent)) {
      throw new UnknownToTable("a transition that leaves its region", source);
    }
    return { guard, target, work };
  }
}

/** The machine has states, or parallel regions of states. Nothing is nested deeper. */
function checkShape(node: AnyStateNode): void {
  const isState = node.parent && node.parent.type !== "parallel";
  const unsupported =
    UNSUPPORTED.find((key) => node.config[key] !== undefined) ?? (isState ? whyNoState : whyNoRegion)(node);
  if (unsupported !== undefined) throw new UnknownToTable(unsupported, node);
  for (const child of Object.values(node.states)) checkShape(child);
}

function whyNoState({ type }: AnyStateNode): string | undefined {
  if (type === "history" || type === "final") return `a ${type} state`;
  return type === "atomic" ? undefined : "substates";
}

/** The machine itself counts as a region; it alone may have parallel regions, and events. */
function whyNoRegion({ parent, type, always, transitions, initial }: AnyStateNode): string | undefined {
  if (type !== "compound" && (parent || type !== "parallel")) return "a region without states";
  if (always) return "always over several states";
  if (parent && transitions.size > 0) return "events of a region";
  return type === "compound" && initial.actions.length > 0 ? "actions of initial" : undefined;
}

/** All combinations of one state per region. */
function enumerate(root: AnyStateNode, regions: readonly AnyStateNode[]): Map<string, Configuration> {
  let choices: AnyStateNode[][] = [[]];
  for (const { states } of regions) {
    const leaves = Object.values(states);
    if (choices.length * leaves.length > MAX_CONFIGURATIONS) {
      throw new UnknownToTable(`machines with more than ${MAX_CONFIGURATIONS} states`, root);
    }
    choices = choices.flatMap((choice) => leaves.map((leaf) => [...choice, leaf]));
  }
  const configurations = new Map<string, Configuration>();
  for (const leaves of choices) {
    const value =
      root.type === "parallel"
        ? Object.freeze(Object.fromEntries(leaves.map(({ key, parent }) => [parent!.key, key])))
        : leaves[0]!.key;
    configurations.set(keyOf(leaves), { value, leaves, rows: new Map(), always: { regions: [], whole: [] } });
  }
  return configurations;
}

function findNamed(
  reference: unknown,
  implementations: Record<string, unknown>,
  kind: "guard" | "action",
  node: AnyStateNode,
): { name: string; params: unknown; found: object } {
  if (typeof reference === "function") throw new UnknownToTable(`an unnamed ${kind}`, node);
  const named = typeof reference === "string" ? { type: reference } : reference;
  const { type: name, params } = named as { type: string; params?: unknown };
  if (typeof params === "function") throw new UnknownToTable(`computed params of the ${kind} ${name}`, node);
  const found = implementations[name];
  if (typeof found !== "function") throw new UnknownToTable(`the ${kind} ${name}, which is not implemented`, node);
  return { name, params, found };
}

const isWildcard = (type: string): boolean => type === "*" || type.endsWith(".*");

/** XState's order: the exact type first, then wildcards, longest first. */
function candidatesOf(node: AnyStateNode, type: string): Transition[] {
  const matches = (pattern: string) => pattern === "*" || `${type}.`.startsWith(pattern.slice(0, -1));
  const wildcards = [...node.transitions.keys()].filter((each) => isWildcard(each) && each !== type && matches(each));
  wildcards.sort((one, other) => other.length - one.length);
  return [type, ...wildcards].flatMap((each) => node.transitions.get(each) ?? []) as Transition[];
}

const keyOf = (leaves: readonly AnyStateNode[]): string => leaves.map(({ id }) => id).join();
