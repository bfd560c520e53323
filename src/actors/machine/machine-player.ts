import type { AnyStateMachine, ContextFrom, EventFrom } from "xstate";

/** A state of a machine: one state per region. The same state is always the same object. */
export interface Configuration {
  readonly value: Readonly<Record<string, string>>;
  readonly leaves: readonly Leaf[];
}

interface Leaf {
  readonly key: string;
  /** By event type, in the order in which they are tried; the first open one is taken. */
  readonly on: ReadonlyMap<string, readonly Edge[]>;
  /** Tried after every event. */
  readonly always: readonly Edge[];
}

/** A transition. Without a guard it is always open, without a target the state does not change. */
interface Edge {
  readonly region: number;
  readonly guard: Named | undefined;
  readonly target: string | undefined;
  readonly work: readonly Named[];
}

/** A guard or an action of the machine, with its parameters. For XState, an action carries out its step itself. */
interface Named {
  readonly params: unknown;
  readonly run: object & { readonly stepOf?: unknown };
}

/** A machine's state and context; immutable. */
export interface MachineState<Context> {
  readonly at: Configuration;
  readonly context: Context;
}

/** The result of one event. */
export interface MachineResult<Context, Step> {
  /** The same object as before if nothing changed. */
  readonly state: MachineState<Context>;
  /** Of the machine's actions, one each, in order. */
  readonly steps: readonly Step[];
}

interface Event {
  type: string;
}
type Test = (about: { context: unknown; event: Event }, params: unknown) => boolean;
type StepOf = (context: unknown, event: Event, params: unknown) => { context: unknown };
/** A part of a machine's definition. */
type Part = Readonly<Record<string, unknown>>;

/** The most `always` steps after one event; XState has no such limit. */
const MAX_ALWAYS = 100;

/**
 * Plays a machine of parallel regions by its definition, with the same results as XState: plain state in, plain state
 * out. It knows states without substates, `on`, `always`, targets in the same region, and guards and actions with
 * names; it refuses every other key of a definition. It keeps nothing between events, so one serves all instances.
 */
export class MachinePlayer<Machine extends AnyStateMachine, Step extends { readonly context: ContextFrom<Machine> }> {
  /** Every state that the machine can be in. */
  readonly configurations: readonly Configuration[];
  readonly #machine: Machine;
  readonly #byKey: ReadonlyMap<string, Configuration>;
  readonly #regions: readonly string[];
  /** Edges of the machine's root, tried if no region has an open edge. */
  readonly #root: Leaf["on"];

  /** @throws Error naming what it does not support */
  constructor(machine: Machine) {
    this.#machine = machine;
    const { on, states } = this.#known(machine.config, "id", "type", "schemas", "context", "on", "states");
    const regions = Object.entries(states as Record<string, Part>);
    this.#root = this.#edgesOn(on, 0, {});
    const leaves = regions.map(([, region], index) => this.#leavesOf(this.#known(region, "initial", "states"), index));
    this.configurations = combinations(leaves).map((chosen) => ({
      value: Object.freeze(Object.fromEntries(regions.map(([name], index) => [name, chosen[index]!.key]))),
      leaves: chosen,
    }));
    this.#byKey = new Map(this.configurations.map((each) => [Object.values(each.value).join(), each]));
    this.#regions = regions.map(([name]) => name);
  }

  /** @throws the exception of one of the machine's actions */
  step(
    state: MachineState<ContextFrom<Machine>>,
    event: EventFrom<Machine>,
  ): MachineResult<ContextFrom<Machine>, Step> {
    const steps: Step[] = [];
    const about = { context: state.context, event: event as Event };
    const selected = select(state.at.leaves, ({ on }) => on.get(about.event.type), about);
    const ofRoot = selected.length > 0 ? undefined : firstOpen(this.#root.get(about.event.type), about);
    const next = this.#follow(ofRoot ? [ofRoot] : selected, state, about.event, steps);
    return this.#stabilize(next, about.event, steps);
  }

  /** @throws RangeError if the machine has no such state */
  restore(value: unknown, context: ContextFrom<Machine>): MachineState<ContextFrom<Machine>> {
    const named = (value ?? {}) as Record<string, unknown>;
    const at = this.#byKey.get(this.#regions.map((region) => named[region]).join());
    if (!at) throw new RangeError(`machine ${this.#machine.id} has no state ${JSON.stringify(value)}`);
    return { at, context };
  }

  /** Take `always` transitions until none is open, or one changes nothing. */
  #stabilize(
    from: MachineState<ContextFrom<Machine>>,
    event: Event,
    steps: Step[],
  ): MachineResult<ContextFrom<Machine>, Step> {
    let state = from;
    for (let count = 0; count < MAX_ALWAYS; count++) {
      const selected = select(state.at.leaves, ({ always }) => always, { context: state.context, event });
      const next = this.#follow(selected, state, event, steps);
      if (next === state) return { state, steps };
      state = next;
    }
    throw new RangeError(
      `machine ${this.#machine.id} takes more than ${MAX_ALWAYS} "always" steps after ${event.type}`,
    );
  }

  /** Take the edges, and their actions from the first region to the last. @returns the same state if nothing changes */
  #follow(
    edges: readonly Edge[],
    state: MachineState<ContextFrom<Machine>>,
    event: Event,
    steps: Step[],
  ): MachineState<ContextFrom<Machine>> {
    if (edges.length === 0) return state;
    let { context } = state;
    for (const { work } of edges) {
      for (const { run, params } of work) {
        const step = (run.stepOf as StepOf)(context, event, params) as Step;
        steps.push(step);
        context = step.context;
      }
    }
    const at = this.#after(state.at, edges);
    return at === state.at && context === state.context ? state : { at, context };
  }

  #after(at: Configuration, edges: readonly Edge[]): Configuration {
    if (edges.every(({ target }) => target === undefined)) return at;
    const keys = at.leaves.map(({ key }) => key);
    for (const { region, target } of edges) if (target !== undefined) keys[region] = target;
    return this.#byKey.get(keys.join())!;
  }

  #leavesOf({ states }: Part, region: number): Leaf[] {
    return Object.entries(states as Part).map(([key, state]) => {
      const { on, always } = this.#known(state, "on", "always");
      return {
        key,
        on: this.#edgesOn(on, region, states as Part),
        always: this.#edges(always, region, states as Part),
      };
    });
  }

  #edgesOn(on: unknown, region: number, siblings: Part): Leaf["on"] {
    const entries = Object.entries((on ?? {}) as Part);
    const wildcard = entries.find(([type]) => type.includes("*"));
    if (wildcard) this.#refuse(`the event ${wildcard[0]}`);
    return new Map(entries.map(([type, transitions]) => [type, this.#edges(transitions, region, siblings)]));
  }

  #edges(transitions: unknown, region: number, siblings: Part): Edge[] {
    return listOf(transitions).map((each) => {
      const part = typeof each === "string" ? { target: each } : each;
      const { target, guard, actions } = this.#known(part, "target", "guard", "actions");
      if (target !== undefined && !Object.hasOwn(siblings, String(target))) this.#refuse(`the target ${target}`);
      return {
        region,
        guard: guard === undefined ? undefined : this.#named(guard, "guard"),
        target: target as string | undefined,
        work: listOf(actions).map((action) => this.#named(action, "action")),
      };
    });
  }

  /** The guard or action of this name. XState's own guards have a `check`; they are not supported. */
  #named(reference: unknown, kind: "guard" | "action"): Named {
    const { type, params } =
      typeof reference === "string" ? { type: reference, params: undefined } : (reference as Part);
    if (typeof type !== "string") return this.#refuse(`a ${kind} without a name`);
    const run: unknown = this.#machine.implementations[`${kind}s`][type];
    const isKnown = typeof run === "function" && (kind === "guard" ? !("check" in run) : "stepOf" in run);
    return isKnown && typeof params !== "function" ? { params, run } : this.#refuse(`the ${kind} ${type}`);
  }

  #known(part: unknown, ...keys: readonly string[]): Part {
    const other = Object.keys(part as Part).find((key) => !keys.includes(key));
    return other === undefined ? (part as Part) : this.#refuse(other);
  }

  #refuse(what: string): never {
    throw new Error(`${this.#machine.id}: the player does not support ${what}`);
  }
}

/** Select the transitions of all regions before any of them is carried out. */
function select(
  leaves: readonly Leaf[],
  edgesOf: (leaf: Leaf) => readonly Edge[] | undefined,
  about: { context: unknown; event: Event },
): readonly Edge[] {
  let selected: Edge[] | undefined;
  for (const leaf of leaves) {
    const edge = firstOpen(edgesOf(leaf), about);
    if (!edge) continue;
    if (selected) selected.push(edge);
    else selected = [edge];
  }
  return selected ?? NONE;
}

const NONE: readonly never[] = Object.freeze([]);

function firstOpen(edges: readonly Edge[] = NONE, about: { context: unknown; event: Event }): Edge | undefined {
  for (const edge of edges) if (!edge.guard || (edge.guard.run as Test)(about, edge.guard.params)) return edge;
  return undefined;
}

const combinations = (choices: readonly Leaf[][]): Leaf[][] =>
  choices.reduce<Leaf[][]>((some, leaves) => some.flatMap((one) => leaves.map((leaf) => [...one, leaf])), [[]]);

const listOf = (value: unknown): unknown[] => (value === undefined ? [] : Array.isArray(value) ? value : [value]);
