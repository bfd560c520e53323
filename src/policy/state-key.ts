import type { Contender, DuckedContender, QueuedContender } from "../actors/floor/contender.ts";
import { everyone } from "../actors/floor/floor-state.ts";
import type { SessionContext, SessionValue } from "../actors/session/session-context.ts";
import type { AgentEntry, Catalog } from "../config/catalog/catalog.ts";
import { turnsMatter } from "./moves.ts";
import {
  AGENT_FIELDS,
  ARBITER_FIELDS,
  CONTENDER_FIELDS,
  FLOOR_FIELDS,
  RESERVATION_FIELDS,
  SESSION_FIELDS,
  SILENT_FIELDS,
  type Table,
  type Treatment,
} from "./state-fields.ts";
import type { SteppedFloor } from "./stepped-floor.ts";

/** By agent: its class; sessions of one class are interchangeable. */
export type Classes = ReadonlyMap<string, string>;

/** An agent that is named anywhere, by another agent, a rule, a restriction or a claim, is alone in its class. */
export function classesOf(catalog: Catalog): Classes {
  const agents = [...catalog.agents.values()];
  const { priorityRules, restrictions, claims, policy } = catalog;
  const named = new Set([...textsIn([priorityRules, restrictions, claims, policy]), ...agents.flatMap(othersNamedBy)]);
  const numbers = new Map<string, number>();
  const classOf = (agent: AgentEntry): string => {
    if (named.has(agent.id)) return agent.id;
    const turns = turnsMatter(agent) ? agent.adapter.yields : "none";
    const signature = `${describe(agent, AGENT_FIELDS, agent.id)} ${turns}`;
    if (!numbers.has(signature)) numbers.set(signature, numbers.size);
    return `#${numbers.get(signature)}`;
  };
  return new Map(agents.map((agent) => [agent.id, classOf(agent)]));
}

/** The texts in those of its keys that decisions depend on, names of other agents among them. */
function othersNamedBy(agent: AgentEntry): string[] {
  const names = (Object.keys(agent) as (keyof AgentEntry)[]).filter((name) => AGENT_FIELDS[name] === "kept");
  return names.flatMap((name) => [...textsIn(agent[name])]).filter((text) => text !== agent.id);
}

function* textsIn(value: unknown): Generator<string> {
  if (typeof value === "string") yield value;
  else if (typeof value === "object" && value !== null) {
    for (const [name, each] of Object.entries(value)) {
      yield name;
      yield* textsIn(each);
    }
  }
}

/** The fields that the table keeps, with the agent's own name left out. */
function describe<T extends object>(value: T, table: Table<T>, agentId: string): string {
  return JSON.stringify(keptOf(value, table as Readonly<Record<string, Treatment>>), (_, each) =>
    each === agentId ? "" : each,
  );
}

/** In the order of the table: that of the object's fields tells how it came about. */
function keptOf(value: object, table: Readonly<Record<string, Treatment>>): unknown[] {
  mustKnow(value, table);
  return Object.entries(table).flatMap(([name, treatment]) => {
    const field = (value as Readonly<Record<string, unknown>>)[name];
    if (field === undefined || treatment === "elsewhere") return [];
    if (treatment === "kept") return [name, field];
    if (treatment === "count") return [name, (field as readonly unknown[]).length];
    if (typeof treatment === "string") return [name];
    return "nested" in treatment ? [name, keptOf(field as object, treatment.nested)] : [];
  });
}

export interface StateKey {
  readonly text: string;
  /** The moments of the state's clocks, in the order of the text: two states with the same text have as many. */
  readonly clocks: readonly number[];
}

export interface BesideFloor {
  /** Of the claims: by session. */
  readonly owed: (sessionId: string) => string;
  readonly owedToGone: string;
  /** Which rules with hours apply. */
  readonly inForce: string;
  readonly classes: Classes;
  /** By session: the moments that matter, each with what it is compared with. */
  readonly clocksOf: (sessionId: string | undefined) => readonly { readonly moment: number; readonly about: string }[];
}

type State = SteppedFloor["sessions"][number];

const sessionTexts = new WeakMap<SessionContext, string>();
const contenderTexts = new WeakMap<Contender, string>();

function sessionText(context: SessionContext): string {
  let text = sessionTexts.get(context);
  if (text === undefined) {
    const lease = context.lease && `lease ${context.lease.lengthMs}`;
    text = `${describe(context, SESSION_FIELDS, context.numbers.agentId)} ${lease}`;
    sessionTexts.set(context, text);
  }
  return text;
}

function contenderText(contender: Contender): string {
  let text = contenderTexts.get(contender);
  if (text === undefined) {
    text = describeContender(contender, CONTENDER_FIELDS);
    contenderTexts.set(contender, text);
  }
  return text;
}

const describeContender = (contender: Contender, table: typeof CONTENDER_FIELDS): string =>
  describe(contender as Contender & DuckedContender & QueuedContender, table, contender.agentId);

/** Equal for states from which the same can happen, but for the moments at which their states began. */
export function stateKey(floor: SteppedFloor, { owed, owedToGone, inForce, classes, clocksOf }: BesideFloor): StateKey {
  const { context } = floor;
  mustKnow(context, ARBITER_FIELDS);
  mustKnow(context.floor, FLOOR_FIELDS);
  const { flags } = context;
  const { reserved, holder, ducked, paused, queued } = context.floor;
  if (reserved) mustKnow(reserved, RESERVATION_FIELDS);
  const competing = everyone(context.floor);
  const label = labelsOf(classes);
  const clocks: number[] = [];
  const timeOf = (sessionId: string | undefined) => {
    const own = clocksOf(sessionId);
    clocks.push(...own.map(({ moment }) => moment));
    return own.map(({ about }) => about).join();
  };
  // What is due at the same time comes in the order in which the sessions asked.
  const asked = orderOf([...floor.sessions.map(({ context: { numbers } }) => numbers), ...competing]);
  const stateText = ({ context: session, value }: State) => {
    const { lifecycle, activity } = value satisfies SessionValue;
    const dead = floor.isDead(session.id) ? "+" : "";
    return `${label(session.numbers.agentId)} ${lifecycle}.${activity}${dead} ${asked.get(session.numbers.askedAt)} ${owed(session.id)} ${sessionText(session)}`;
  };
  const states = new Map(floor.sessions.map((state) => [state.context.id as string, state]));
  const described = competing.map((contender) => {
    const { sessionId, askedAt } = contender;
    const state = states.get(sessionId)!;
    states.delete(sessionId);
    return `${stateText(state)} ${asked.get(askedAt)} ${contenderText(contender)} ${timeOf(sessionId)}`;
  });
  const others = [...states.values()].map((state) => ({ text: stateText(state), id: state.context.id as string }));
  others.sort((one, other) => (one.text < other.text ? -1 : one.text > other.text ? 1 : 0));
  const silent = others.map(
    ({ text, id }) => `${text} ${describeContender(floor.session(id)!.context.numbers, SILENT_FIELDS)} ${timeOf(id)}`,
  );
  const lists = [holder ? 1 : 0, ducked.length, paused.length, queued.length].join();
  const front = reserved ? `${competing.findIndex(({ sessionId }) => sessionId === reserved.sessionId)} ` : "";
  const off = [...floor.catalog.agents.values()].filter(({ enabled }) => !enabled).map(({ id }) => id);
  const isCurrent = context.catalog === undefined || context.catalog === floor.catalog.hash;
  const on = Object.keys(flags).filter((name) => flags[name]);
  const rest = [lists, front + timeOf(undefined), on.sort(), off, isCurrent, inForce, owedToGone];
  return { text: [...described, "/", ...silent, "/", ...rest].join("|"), clocks };
}

/**
 * The order of requests. A session may have two: a holder that asked again competes with the later one, and its limits
 * end by the earlier one. They count as one unless another session asked between them.
 */
function orderOf(requests: readonly Contender[]): ReadonlyMap<number, number> {
  const order = new Map<number, number>();
  let last: string | undefined;
  let rank = 0;
  for (const { sessionId, askedAt } of requests.toSorted((one, other) => one.askedAt - other.askedAt)) {
    if (sessionId !== last) rank += 1;
    last = sessionId;
    order.set(askedAt, rank);
  }
  return order;
}

/** Agents of one class are told apart by the order in which they appear. */
function labelsOf(classes: Classes): (agentId: string) => string {
  const labels = new Map<string, string>();
  return (agentId) => {
    const known = classes.get(agentId) ?? agentId;
    if (known === agentId) return agentId;
    let own = labels.get(agentId);
    if (own === undefined) {
      own = `${known}.${[...labels.keys()].filter((id) => classes.get(id) === known).length}`;
      labels.set(agentId, own);
    }
    return own;
  };
}

/** @throws Error if the object has a field that its table has not */
function mustKnow(value: object, table: Readonly<Record<string, Treatment>>): void {
  for (const name in value) {
    if (table[name] === undefined) throw new Error(`the key of a state has no word on the field ${name}`);
  }
}
