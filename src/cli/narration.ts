import { MessageTexts } from "../client/message-texts.ts";
import type { ServerEvent } from "../client/server-event.ts";
import type { Decision } from "../protocol/decision.ts";
import type { Transition } from "../protocol/event.ts";
import type { Style } from "./paint.ts";

/** One event, described in a line. */
export interface Line {
  /** ms since 1970. */
  at: number;
  agentId: string;
  mark: string;
  style?: Style;
  text: string;
}

/** A line before texts of the same agent are joined. */
export interface Piece extends Line {
  /** The piece continues a message that began earlier. */
  isMore?: boolean;
  /** The agent that says it, below the session's own: the path of sub-agents. */
  path?: readonly string[];
}

type Names = (agentId: string) => string;

/**
 * Describe what happened on a floor: which agent got it, which lost it and why, and what was said.
 *
 * @param heard the events of its sessions, including texts, in the order in which a connection received them
 * @param floor the floor's own events: only they contain a refusal that left no session
 */
export function narrate(heard: readonly ServerEvent[], floor: readonly ServerEvent[], nameOf: Names): Line[] {
  const narrator = new Narrator(nameOf);
  const lines = heard.flatMap((event) => narrator.take(event));
  for (const event of floor) {
    if (event.type !== "arbitration" || event.sessionId !== undefined) continue;
    const at = Date.parse(event.timestamp);
    const later = lines.findIndex((line) => line.at > at);
    const { agentId } = event.data.challenger;
    const refusal = describeBlocked(event.data).map((each) => ({ at, agentId, ...each }));
    lines.splice(later < 0 ? lines.length : later, 0, ...refusal);
  }
  return joinTexts(lines);
}

/** Describes the events of sessions one by one, in the order in which a stream delivers them. */
export class Narrator {
  readonly #nameOf: Names;
  readonly #agents = new Map<string, string>();
  /** The newest grant of each session, for the transition that follows it. */
  readonly #decided = new Map<string, Decision>();
  readonly #texts = new NewTexts();

  constructor(nameOf: Names) {
    this.#nameOf = nameOf;
  }

  /** Name the agent of a session whose creation is not among the events. */
  meet(sessionId: string, agentId: string): void {
    this.#agents.set(sessionId, agentId);
  }

  take(event: ServerEvent): Piece[] {
    const { sessionId = "" } = event;
    if (event.type === "session_created") this.meet(sessionId, event.data.agentId);
    if (event.type === "agent_switched") this.meet(sessionId, event.data.currentAgentId);
    if (event.type === "arbitration" && event.data.outcome === "granted") this.#decided.set(sessionId, event.data);
    const described = describeEvent(event, this.#decided.get(sessionId), this.#nameOf);
    const agentId = this.#agents.get(sessionId) ?? sessionId;
    const at = Date.parse(event.timestamp);
    return [...described, ...this.#texts.take(event)].map((each) => ({ at, agentId, ...each }));
  }
}

type Description = Omit<Piece, "at" | "agentId">;

function describeEvent(event: ServerEvent, decision: Decision | undefined, nameOf: Names): Description[] {
  switch (event.type) {
    case "session_transition":
      return describeTransition(event.data, decision, nameOf);
    case "arbitration":
      return event.data.outcome === "granted" ? [] : describeBlocked(event.data);
    case "error":
      return [{ mark: "✗", style: "refused", text: `fails: ${event.data.message} (${event.data.errorCode})` }];
    default:
      return [];
  }
}

const inFront = (text: string): Description[] => [{ mark: "▶", style: "active", text }];
const paused = (text: string): Description[] => [{ mark: "‖", style: "paused", text }];
const ended = (text: string): Description[] => [{ mark: "■", style: "quiet", text }];

function describeTransition(transition: Transition, decision: Decision | undefined, nameOf: Names): Description[] {
  const { event, from, reason, by } = transition;
  switch (event) {
    case "activate":
      return inFront(`has the floor${whyGranted(decision, nameOf)}`);
    case "duck":
      return [{ mark: "▽", style: "ducked", text: howDucked(transition, nameOf) }];
    case "resume":
      if (from.startsWith("ducked")) return inFront("is in front, at its own volume");
      return inFront(`goes on${whyGranted(decision, nameOf)}`);
    case "preempt":
      if (reason === "restricted") return paused("is paused: it is not allowed now");
      return paused(by ? `is paused for ${nameOf(by.agentId)}` : "is paused");
    case "pause":
      return paused("is paused by its user");
    case "yield":
      return paused(whyYielded(transition));
    case "archive":
    case "expire":
      return ended(reason === "replaced" && by ? `is replaced by ${nameOf(by.agentId)}` : "ends");
    default:
      return [];
  }
}

function howDucked({ from, by, level = 0 }: Transition, nameOf: Names): string {
  const verb = from === "created" ? "starts" : from === "paused" ? "comes back" : "goes on";
  const beneath = by ? ` beneath ${nameOf(by.agentId)}` : "";
  const volume = level === 0 ? "at its own volume" : `${-level} dB quieter`;
  return `${verb}${beneath}, ${volume}`;
}

function whyYielded({ reason, from }: Transition): string {
  if (reason === "max_hold") return "was heard for as long as it may be";
  if (reason === "resume_within") return "was silent for too long: it does not come back by itself";
  if (reason !== "lease_expired") return "has done its turn and gives the floor back";
  return `sent no heartbeat and lost its place${from === "paused" ? ": it does not come back by itself" : ""}`;
}

function whyGranted(decision: Decision | undefined, nameOf: Names): string {
  if (!decision) return "";
  const { reason, challenger, holder, say } = decision;
  const words = `(${reason}) “${say}”`;
  if (reason === "floor_free") return `: it was free ${words}`;
  if (reason !== "preempted" || !holder) return ` ${words}`;
  const right = holder.interruptible ? "may be interrupted" : "lets that much through";
  return `: ${challenger.priority} > ${holder.priority}, and ${nameOf(holder.agentId)} ${right} ${words}`;
}

/** A decision against the challenger, in a line or two. */
export function describeBlocked({ outcome, reason, challenger, holder, wouldNeed, say }: Decision): Description[] {
  const sign = reason === "equal_priority" ? "=" : reason === "lower_priority" ? "<" : "against";
  const numbers = holder ? `${challenger.priority} ${sign} ${holder.priority} ` : "";
  const isQueued = outcome === "queued";
  const style = isQueued ? "waiting" : "refused";
  const text = `${isQueued ? "waits" : "is refused"}: ${numbers}(${reason}) “${say}”`;
  const lines: Description[] = [{ mark: isQueued ? "·" : "✗", style, text }];
  if (wouldNeed !== undefined) lines.push({ mark: " ", style: "quiet", text: `would need ${wouldNeed}` });
  return lines;
}

/** The marks of what a user says, and of what an agent says. */
export const HEARD = "‹";
export const SAID = "›";

/** Extracts the new text of each message, piece by piece. */
class NewTexts {
  readonly #texts = new MessageTexts();
  /** The length of each message's text that was already returned, in UTF-16 units. */
  readonly #lengths = new Map<string, number>();

  take(event: ServerEvent): Description[] {
    const message = this.#texts.take(event);
    if (!message) return [];
    const { messageId, agent, text } = message;
    const from = this.#lengths.get(messageId) ?? 0;
    if (text.length <= from) return [];
    this.#lengths.set(messageId, text.length);
    // A delta contains the new text: slicing it out of the whole text would copy the whole text each time.
    const added = event.type === "delta" ? event.data.text.slice(from - event.data.offset) : text.slice(from);
    return [{ mark: agent ? SAID : HEARD, text: added, isMore: from > 0, ...(agent && { path: agent.path.slice(1) }) }];
  }
}

/** Join consecutive texts of one agent into one line. A text that continues an earlier one begins with an ellipsis. */
function joinTexts(pieces: readonly Piece[]): Line[] {
  const lines: Line[] = [];
  for (const { isMore, path: _, ...line } of pieces) {
    const last = lines.at(-1);
    if (last?.mark === SAID && line.mark === SAID && last.agentId === line.agentId) last.text += line.text;
    else lines.push(isMore ? { ...line, text: `… ${line.text.trimStart()}` } : line);
  }
  return lines;
}
