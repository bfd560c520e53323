import type { AnyStateMachine, AnyStateNode } from "xstate";

/**
 * A machine's states and arrows as plain JSON, for diagrams. It is derived from the machine itself, so that diagrams
 * cannot differ from it.
 */
export interface MachineChart {
  id: string;
  /** The events that the machine handles in every state. None of them changes the state by itself. */
  anywhere: string[];
  /** The machine's parallel regions. A machine without regions has one, named like the machine. */
  regions: ChartRegion[];
}

export interface ChartRegion {
  name: string;
  /** The name of the initial state. */
  initial: string;
  states: ChartState[];
  arrows: ChartArrow[];
}

export interface ChartState {
  name: string;
  /** The names of the events that this state handles without a change of state. */
  stays: string[];
  /** The names of the events that this state answers with an error, and its code. */
  refuses: Refused[];
}

interface Refused {
  event: string;
  code: string;
}

/** A transition from one state to another. */
export interface ChartArrow {
  from: string;
  to: string;
  /** Undefined for an `always` transition. */
  event?: string;
  /** The name of its guard, with the guard's parameters. */
  guard?: string;
}

type Transition = NonNullable<AnyStateNode["always"]>[number];

/** @throws Error if a region's states have substates; no machine of Interlock has them */
export function chartOf(machine: AnyStateMachine): MachineChart {
  const { root } = machine;
  const regions = root.type === "parallel" ? Object.values(root.states) : [root];
  return {
    id: machine.id,
    anywhere: eventsThatStay(root),
    regions: regions.map((region) => regionOf(region, machine.id)),
  };
}

function regionOf(region: AnyStateNode, machineId: string): ChartRegion {
  const states = Object.values(region.states);
  const nested = states.find((state) => Object.keys(state.states).length > 0);
  if (nested) throw new Error(`${machineId}: ${nested.id} has substates`);
  const [initial] = region.initial.target ?? [];
  if (!initial) throw new Error(`${machineId}: ${region.id} has no initial state`);
  return {
    name: region.key || machineId,
    initial: initial.key,
    states: states.map((state) => {
      const refuses = refusedIn(state);
      const isRefused = (event: string) => refuses.some((each) => each.event === event);
      return { name: state.key, stays: eventsThatStay(state).filter((event) => !isRefused(event)), refuses };
    }),
    arrows: states.flatMap(arrowsFrom),
  };
}

/** In the machine's order: it takes the first transition whose guard passes. */
function arrowsFrom(state: AnyStateNode): ChartArrow[] {
  const named = [...state.transitions].flatMap(([event, transitions]) =>
    transitions.flatMap((transition) => arrowOf(state, transition, event)),
  );
  const immediate = (state.always ?? []).flatMap((transition) => arrowOf(state, transition, undefined));
  return [...immediate, ...named];
}

function arrowOf(state: AnyStateNode, { target, guard }: Transition, event: string | undefined): ChartArrow[] {
  const others = (target ?? []).filter((to) => to !== state);
  const name = guardName(guard);
  return others.map((to) => ({
    from: state.key,
    to: to.key,
    ...(event !== undefined && { event }),
    ...(name !== undefined && { guard: name }),
  }));
}

function eventsThatStay(state: AnyStateNode): string[] {
  const leadsAway = ({ target }: Transition) => (target ?? []).some((to) => to !== state);
  return [...state.transitions].filter(([, each]) => !each.some(leadsAway)).map(([event]) => event);
}

/** An event is refused if the action `refuse` is all that it causes, regardless of guards. */
function refusedIn(state: AnyStateNode): Refused[] {
  return [...state.transitions].flatMap(([event, transitions]) => {
    const codes = transitions.map(({ target, actions }) => {
      const [only, ...others] = actions as { type?: unknown; params?: { code?: unknown } }[];
      const isRefusal = target === undefined && only?.type === "refuse" && others.length === 0;
      return isRefusal ? only.params?.code : undefined;
    });
    const [code] = codes;
    return typeof code === "string" && codes.every((each) => each === code) ? [{ event, code }] : [];
  });
}

function guardName(guard: unknown): string | undefined {
  if (guard === undefined) return undefined;
  if (typeof guard === "string") return guard;
  const { type, params } = guard as { type?: unknown; params?: Record<string, unknown> };
  if (typeof type !== "string") throw new Error("a guard without a name cannot be shown");
  return params === undefined ? type : `${type} ${Object.values(params).join(" ")}`;
}
