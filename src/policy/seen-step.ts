import type { Contender } from "../actors/floor/contender.ts";
import { audible, everyone } from "../actors/floor/floor-state.ts";
import type { Decision } from "../protocol/decision.ts";
import type { Transition } from "../protocol/event.ts";
import { isAudibleState } from "../protocol/written-state.ts";
import type { SteppedFloor } from "./stepped-floor.ts";

export type SeenTransition = Transition & { readonly sessionId: string };

/** What a reader of the log sees of a step, in the order in which it happened. */
export type SeenEvent =
  | { readonly type: "transition"; readonly transition: SeenTransition }
  | { readonly type: "decision"; readonly decision: Decision };

/** An event as a reader sees it: a transition or a decision, or nothing. */
export function seenEvent({ type, data, sessionId }: { type: string; data: unknown; sessionId?: string }): SeenEvent[] {
  if (type === "arbitration") return [{ type: "decision", decision: data as Decision }];
  if (type !== "session_transition") return [];
  return [{ type: "transition", transition: { ...(data as Transition), sessionId: sessionId! } }];
}

/** One step of a floor, and what a reader of its log sees of it. */
export interface SeenStep {
  readonly before: SteppedFloor;
  readonly after: SteppedFloor;
  /** In the order in which they happened. */
  readonly events: readonly SeenEvent[];
  readonly transitions: readonly SeenTransition[];
  readonly decisions: readonly Decision[];
  /** The session that asks for the floor, or that its user or its program acts on. */
  readonly subject: string | undefined;
  /** The subject asks for the floor. */
  readonly isRequest: boolean;
  /** The catalogue is replaced, which may silence sessions. */
  readonly isRenumbered: boolean;
}

/** An event, and the sessions that are heard when it happens. */
export type HeardEvent = SeenEvent & { readonly heard: readonly string[] };

/** A session that falls silent within a step, whatever becomes of it in the same step. */
export interface Silencing {
  readonly transition: SeenTransition;
  /** The sessions that are heard then or later in the step. */
  readonly others: readonly string[];
  /** The sessions that are heard when it falls silent, and those that silence it. */
  readonly causes: readonly string[];
}

/**
 * The events of a step, each with the sessions that are heard when it happens. A deadline of 0 ms ends a state in the
 * step that begins it, so the floor before and after a step does not show all that was heard.
 */
export function heardEvents({ before, events }: SeenStep): HeardEvent[] {
  let heard: readonly string[] = audible(before.context.floor).map(({ sessionId }) => sessionId);
  return events.map((event) => {
    const now = { ...event, heard };
    if (event.type === "transition") {
      const { sessionId, to } = event.transition;
      const rest = heard.filter((id) => id !== sessionId);
      heard = isAudibleState(to) ? [...rest, sessionId] : rest;
    }
    return now;
  });
}

/** Every session that falls silent within the step, in the order in which it happens. */
export function silencingsIn(step: SeenStep): Silencing[] {
  const events = heardEvents(step);
  return events.flatMap((event, at) => {
    if (event.type !== "transition" || isAudibleState(event.transition.to)) return [];
    const { transition, heard } = event;
    if (!heard.includes(transition.sessionId)) return [];
    const later = events.slice(at + 1).flatMap((each) => each.heard);
    const last = audible(step.after.context.floor).map(({ sessionId }) => sessionId as string);
    const others = new Set([...heard, ...later, ...last].filter((id) => id !== transition.sessionId));
    const { by } = transition;
    // What comes up only because another gave way did not silence that.
    const causes = [...heard.filter((id) => others.has(id)), ...(by ? [by.sessionId as string] : [])];
    return [{ transition, others: [...others], causes }];
  });
}

/** The agent of a session that is or was on the floor; undefined if it never was. */
export const agentIdOf = ({ before, after }: SeenStep, id: string): string | undefined =>
  (after.session(id) ?? before.session(id))?.context.numbers.agentId;

/** A session as it competes after the step, or as it did before; as it asked last if it did so within the step only. */
export function contenderOf({ before, after }: SeenStep, id: string | undefined): Contender | undefined {
  const isIt = (contender: Contender) => contender.sessionId === id;
  const competing = everyone(after.context.floor).find(isIt) ?? everyone(before.context.floor).find(isIt);
  return competing ?? (id === undefined ? undefined : after.session(id)?.context.numbers);
}
