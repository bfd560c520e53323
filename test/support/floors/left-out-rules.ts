import { accept } from "../../../src/actors/facts.ts";
import type * as Arbiter from "../../../src/actors/floor/arbiter.ts";
import type * as Arbitration from "../../../src/actors/floor/arbitration.ts";
import type { Contender } from "../../../src/actors/floor/contender.ts";
import type { Floor, FloorRules } from "../../../src/actors/floor/floor-state.ts";
import type * as Rearrangement from "../../../src/actors/floor/rearrangement.ts";
import type * as SessionDeadlines from "../../../src/actors/session/session-deadlines.ts";
import type * as Turns from "../../../src/actors/session/turns.ts";
import type { AgentEntry } from "../../../src/config/catalog/catalog.ts";

/** The fault that is in force. A test mocks the modules of the rules with `withFaults`, and sets it. */
export const planted: { fault?: Faults | undefined } = {};

type Changes = (agent: AgentEntry) => Partial<AgentEntry>;
export const withAgents = (rules: FloorRules, changes: Changes): FloorRules => ({
  ...rules,
  agents: new Map([...rules.agents].map(([id, agent]) => [id, { ...agent, ...changes(agent) }])),
});
export const withContenders = (floor: Floor, change: <C extends Contender>(contender: C) => C): Floor => ({
  ...floor,
  holder: floor.holder && change(floor.holder),
  ducked: floor.ducked.map(change),
  paused: floor.paused.map(change),
  queued: floor.queued.map(change),
});
const firm = <C extends Contender>({ yieldsTo: _, ...contender }: C) => contender as unknown as C;

interface Modules {
  arbitration: typeof Arbitration;
  rearrangement: typeof Rearrangement;
  arbiter: typeof Arbiter;
  turns: typeof Turns;
  deadlines: typeof SessionDeadlines;
}
export type Faults = { [Name in keyof Modules]?: (sound: Modules[Name]) => Partial<Modules[Name]> };

type Faulty<F extends (...given: never[]) => unknown> = (sound: F, ...given: Parameters<F>) => ReturnType<F>;

/** `decide` with a fault, which gets the sound function and what it is called with. */
export const decides = (faulty: Faulty<typeof Arbitration.decide>): Faults => ({
  arbitration: ({ decide }) => ({ decide: (...given) => faulty(decide, ...given) }),
});
/** `settle` with a fault. */
export const settles = (faulty: Faulty<typeof Rearrangement.settle>): Faults => ({
  rearrangement: ({ settle }) => ({ settle: (...given) => faulty(settle, ...given) }),
});
const arbitrates = (faulty: Faulty<typeof Arbiter.arbitrate>): Faults => ({
  arbiter: ({ arbitrate }) => ({ arbitrate: (...given) => faulty(arbitrate, ...given) }),
});
/** No floor settles. */
export const UNSETTLED = settles((_, floor) => ({ floor, moves: [], restricted: [] }));

const decideWithout = (way: "queue" | "duck"): Faults =>
  decides((decide, floor, { agent, ...challenger }, rules) => {
    const left = agent && { ...agent, whenBlocked: agent.whenBlocked.filter((each) => each !== way) };
    return decide(floor, { ...challenger, agent: left }, rules);
  });
const deadlinesWithout = (since: "audibleSince" | "waitsSince"): Faults => ({
  deadlines: ({ deadlineOf }) => ({
    deadlineOf: (context, ...given) => deadlineOf({ ...context, [since]: undefined }, ...given),
  }),
});

/** The rules with a letter of docs/use/arbitration.md, each left out. */
export const LEFT_OUT = {
  "E: a session of an agent that does not answer comes up": settles((settle, floor, rules, ...given) => {
    const answering = withAgents(rules, () => ({ enabled: true }));
    return settle(floor, answering, ...given);
  }),
  "R: no session is replaced": {
    rearrangement: ({ giveFront, letBeneath, letWait, settle }) => {
      const none = (rules: FloorRules) => withAgents(rules, () => ({ replaces: [] }));
      return {
        giveFront: (floor, contender, rules, ...rest) => giveFront(floor, contender, none(rules), ...rest),
        letBeneath: (floor, contender, rules) => letBeneath(floor, contender, none(rules)),
        letWait: (floor, contender, as, now, rules) => letWait(floor, contender, as, now, none(rules)),
        settle: (floor, rules, ...given) => settle(floor, none(rules), ...given),
      };
    },
  },
  "W: a blocked session does not wait": decideWithout("queue"),
  "B: a blocked session does not start beneath the holder": decideWithout("duck"),
  "Y: no session gives way by yields_to": decides((decide, floor, ...given) =>
    decide(withContenders(floor, firm), ...given),
  ),
  "S: a floor does not settle": UNSETTLED,
  "H: no session is heard for too long": deadlinesWithout("audibleSince"),
  "H: no session is silent for too long": deadlinesWithout("waitsSince"),
  "H: those that are heard do not finish": settles((settle, floor, rules, ...given) => {
    const restrictions = rules.restrictions.map((each) =>
      each.others === "finish" ? { ...each, others: "pause" as const } : each,
    );
    return settle(floor, { ...rules, restrictions }, ...given);
  }),
  "A: a turn that is not done does not give the floor back": {
    turns: ({ applyAfterTurn: settleAfterTurn }) => ({
      applyAfterTurn: (step, isDone) => (isDone ? settleAfterTurn(step, isDone) : undefined),
    }),
  },
  "P: a stop forgets the session for which the floor is reserved": arbitrates((arbitrate, context, event, sessions) =>
    event.type === "floor.stop" && !context.floor.holder
      ? { context, facts: [accept({ archived: [] })], orders: [] }
      : arbitrate(context, event, sessions),
  ),
  "N: a new catalogue renumbers no session": arbitrates((arbitrate, context, event, sessions) =>
    arbitrate(context, event.type === "renumber" ? { type: "hours", given: event.given } : event, sessions),
  ),
} satisfies Record<string, Faults>;

/** The module, with the functions of the fault that is in force. */
export function withFaults<Name extends keyof Modules>(name: Name, sound: Modules[Name]): Modules[Name] {
  const choose =
    (key: string, each: (...given: never[]) => unknown) =>
    (...given: never[]) =>
      ((planted.fault?.[name]?.(sound) as Record<string, typeof each> | undefined)?.[key] ?? each)(...given);
  return Object.fromEntries(
    Object.entries(sound).map(([key, each]) => [key, typeof each === "function" ? choose(key, each as never) : each]),
  ) as unknown as Modules[Name];
}
