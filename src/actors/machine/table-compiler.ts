import { type AnyStateMachine, type AnyStateNode, matchesState, type StateValue } from "xstate";
import type { Configuration, Edge, Guard, MachineTable, Row, Work } from "./machine-table.ts";

type Transition = NonNullable<AnyStateNode["always"]>[number];
type TransitionsOf = (node: AnyStateNode) => readonly Transition[];

/** The maximum number of states of a table, all combinations of the regions counted. */
const MAX_CONFIGURATIONS = 4_096;
/** The maximum number of cached event types per state; the machines have far fewer. */
const MAX_ROWS = 256;

/** The machine uses a feature that the table does not support. */
export class UnknownToTable extends Error {
  constructor(what: string, node: AnyStateNode) {
    super(`${node.id}: the table does not support ${what}`);
    this.name = "UnknownToTable";
  }
}

/**
 * Compile an XState machine to a table. Every feature that the table does not support is rejected by name, so that a
 * table never behaves differently from XState.
 * @throws UnknownToTable
 */
export function compileMachine(machine: AnyStateMachine): MachineTable {
  return new Compiler(machine).compile();
}

/** Reads one machine. */
class Compiler {
  readonly #machine: AnyStateMachine;
  readonly #root: AnyStateNode;
  readonly #hasRegions: boolean;
  /** The machine's parallel regions; of a machine without regions, its root. */
  readonly #regions: readonly AnyStateNode[];
  readonly #configurations: ReadonlyMap<string, Configuration>;

  constructor(machine: AnyStateMachine) {
    const { root } = machine;
    checkShape(root);
    this.#machine = machine;
    this.#root = root;
    this.#hasRegions = root.type === "parallel";
    this.#regions = this.#hasRegions ? Object.values(root.states) : [root];
    this.#configurations = enumerate(root, this.#regions);
  }

  compile(): MachineTable {
    const machine = this.#machine;
    const configurations = this.#configurations;
    for (const at of configurations.values()) {
      const always = at.leaves.map((leaf, region) => this.#edgesUp(leaf, region, at, ({ always = [] }) => always));
      at.always = { regions: always, whole: [] };
    }
    this.#readAll(this.#root, undefined);
    const first = this.#regions.map(initialLeaf);
    const entered = new Set(first.flatMap((leaf) => pathUp(leaf, this.#root).reverse()));
    return {
      machine,
      configurations: [...configurations.values()],
      initial: configurations.get(keyOf(first))!,
      entry: [...entered].flatMap((node) => this.#readWork(node, node.entry)),
      at(value) {
        const at = configurations.values().find((each) => isSame(each.value, value));
        if (!at) throw new RangeError(`machine ${machine.id} has no state ${JSON.stringify(value)}`);
        return at;
      },
      rowOf: (at, eventType) => {
        const known = at.rows.get(eventType);
        if (known) return known;
        const row = this.#makeRow(at, eventType);
        if (at.rows.size < MAX_ROWS) at.rows.set(eventType, row);
        return row;
      },
      after(at, edges) {
        if (edges.every(({ target }) => target === undefined)) return at;
        const leaves = [...at.leaves];
        for (const { region, target } of edges) if (target) leaves[region] = target;
        return configurations.get(keyOf(leaves))!;
      },
    };
  }

  /** Read everything once, so that unsupported features fail here: rows are compiled later, on first use. */
  #readAll(node: AnyStateNode, region: AnyStateNode | undefined): void {
    this.#readWork(node, node.entry);
    this.#readWork(node, node.exit);
    const within = this.#hasRegions ? region : this.#root;
    for (const transition of [...node.transitions.values()].flat()) {
      this.#readGuard(transition, {});
      this.#readMove(transition, within && initialLeaf(node), within ?? this.#root);
    }
    for (const child of Object.values(node.states)) this.#readAll(child, region ?? child);
  }

  #makeRow(at: Configuration, type: string): Row {
    const candidates: TransitionsOf = (node) => candidatesOf(node, type);
    return {
      regions: at.leaves.map((leaf, region) => this.#edgesUp(leaf, region, at, candidates)),
      whole: this.#hasRegions ? this.#edgesOf(candidates(this.#root), undefined, 0, at) : [],
    };
  }

  /** The edges from the leaf up to its region: a leaf's own edges come first. */
  #edgesUp(leaf: AnyStateNode, region: number, at: Configuration, of: TransitionsOf): Edge[] {
    return this.#edgesOf(pathUp(leaf, this.#regions[region]!).flatMap(of), leaf, region, at);
  }

  #edgesOf(
    transitions: readonly Transition[],
    leaf: AnyStateNode | undefined,
    region: number,
    at: Configuration,
  ): Edge[] {
    const edges: Edge[] = [];
    for (const transition of transitions) {
      const guard = this.#readGuard(transition, at.value);
      if (guard === false) continue;
      edges.push({
        region,
        guard: guard === true ? undefined : guard,
        ...this.#readMove(transition, leaf, this.#regions[region]!),
      });
      // Edges after an edge that is always open are never tried.
      if (guard === true) break;
    }
    return edges;
  }

  /** A guard's name and test. A `stateIn` guard is decided here: true or false. */
  #readGuard({ guard, source }: Transition, value: StateValue): Guard | boolean {
    if (guard === undefined) return true;
    const { name, params, found } = findNamed(guard, this.#machine.implementations.guards, "guard", source);
    if (!("check" in found)) return { name, params, test: found as Guard["test"] };
    const { stateValue } = found as { stateValue?: StateValue };
    if (stateValue === undefined || (typeof stateValue === "string" && stateValue.startsWith("#"))) {
      throw new UnknownToTable(`the guard ${name}, which combines other guards`, source);
    }
    return matchesState(stateValue, value);
  }

  #readWork(node: AnyStateNode, actions: readonly unknown[]): Work[] {
    return actions.map((action) => {
      const { name, params, found } = findNamed(action, this.#machine.implementations.actions, "action", node);
      if (!("collect" in found)) throw new UnknownToTable(`the action ${name}, which is not an enqueueActions`, node);
      return { name, params, collect: found.collect as Work["collect"] };
    });
  }

  #readMove(transition: Transition, leaf: AnyStateNode | undefined, region: AnyStateNode) {
    const root = this.#root;
    const { source, actions, reenter } = transition;
    const [target, second] = (transition.target ?? []) as AnyStateNode[];
    const work = this.#readWork(source, actions);
    if (reenter) throw new UnknownToTable("a transition that reenters", source);
    if (!target) return { target: undefined, exit: [], work, entry: [] };
    if (second) throw new UnknownToTable("a transition with several targets", source);
    if (!leaf || target === root || !isWithin(target, region)) {
      throw new UnknownToTable("a transition that leaves its region", source);
    }
    // The innermost state that stays active: only states below it are exited and entered.
    const isAround = (node: AnyStateNode) => node !== target && isWithin(target, node);
    const stays = isWithin(target, source) ? source : pathUp(source, root).find(isAround)!;
    const below = (node: AnyStateNode) => pathUp(node, root).filter((each) => each !== stays && isWithin(each, stays));
    const into = initialLeaf(target);
    const exit = below(leaf).flatMap((node) => this.#readWork(node, node.exit));
    const entry = below(into)
      .reverse()
      .flatMap((node) => this.#readWork(node, node.entry));
    return { target: into, exit, work, entry };
  }
}

function checkShape(node: AnyStateNode): void {
  const { config, parent, type } = node;
  if (type === "history" || type === "final") throw new UnknownToTable(`a ${type} state`, node);
  if (type === "parallel" && parent) throw new UnknownToTable("regions below the machine itself", node);
  if (type === "parallel" && node.always) throw new UnknownToTable("always over regions", node);
  if (parent?.type === "parallel" && type !== "compound") throw new UnknownToTable("a region without states", node);
  for (const key of ["after", "invoke", "onDone", "output", "route"] as const) {
    if (config[key] !== undefined) throw new UnknownToTable(key, node);
  }
  if (type === "compound" && node.initial.actions.length > 0) throw new UnknownToTable("actions of initial", node);
  for (const child of Object.values(node.states)) checkShape(child);
}

/** All combinations of one leaf per region. */
function enumerate(root: AnyStateNode, regions: readonly AnyStateNode[]): Map<string, Configuration> {
  let choices: AnyStateNode[][] = [[]];
  for (const region of regions) {
    const leaves = leavesOf(region);
    if (choices.length * leaves.length > MAX_CONFIGURATIONS) {
      throw new UnknownToTable(`machines with more than ${MAX_CONFIGURATIONS} states`, root);
    }
    choices = choices.flatMap((choice) => leaves.map((leaf) => [...choice, leaf]));
  }
  const configurations = new Map<string, Configuration>();
  for (const leaves of choices) {
    const value = stateValueOf(root, leaves);
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

/** The nodes from `node` up to `top`, both included. */
function pathUp(node: AnyStateNode, top: AnyStateNode): AnyStateNode[] {
  return node === top || !node.parent ? [node] : [node, ...pathUp(node.parent, top)];
}

const isWithin = (node: AnyStateNode, above: AnyStateNode): boolean =>
  node === above || (node.parent !== undefined && isWithin(node.parent, above));

const leavesOf = (node: AnyStateNode): AnyStateNode[] =>
  node.type === "compound" ? Object.values(node.states).flatMap(leavesOf) : [node];

const initialLeaf = (node: AnyStateNode): AnyStateNode =>
  node.type === "compound" ? initialLeaf(node.initial.target[0]!) : node;

const keyOf = (leaves: readonly AnyStateNode[]): string => leaves.map(({ id }) => id).join();

/** In XState's format: a leaf as its key, a state with substates as an object. */
function stateValueOf(node: AnyStateNode, leaves: readonly AnyStateNode[]): StateValue {
  const inside = Object.values(node.states).filter((child) => leaves.some((leaf) => isWithin(leaf, child)));
  if (node.type === "compound" && inside[0]!.type === "atomic") return inside[0]!.key;
  return Object.freeze(Object.fromEntries(inside.map((child) => [child.key, stateValueOf(child, leaves)])));
}

function isSame(one: unknown, other: unknown): boolean {
  if (typeof one !== "object" || typeof other !== "object" || !one || !other) return one === other;
  const entries = Object.entries(one);
  return (
    entries.length === Object.keys(other).length &&
    entries.every(([key, value]) => isSame(value, (other as Record<string, unknown>)[key]))
  );
}
