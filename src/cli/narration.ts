import { MessageTexts } from "../client/message-texts.ts";
import type { ServerEvent } from "../client/server-event.ts";
import type { Decision } from "../protocol/decision.ts";
import type { Transition } from "../protocol/event.ts";
import type { Style } from "./paint.ts";

/** One thing that happened, told. */
export interface Line {
  /** ms since 1970. */
  at: number;
  agentId: string;
  mark: string;
  style?: Style;
  text: string;
}

/** A line before neighbours are joined. */
interface Piece extends Line {
  /** Its message began in an earlier piece. */
  isMore?: boolean;
}

type Names = (agentId: string) => string;

/**
 * What happened on a floor, in sentences: who got it, who lost it and why, and what was said meanwhile.
 *
 * @param heard the events of its sessions in the order in which a connection was told them, texts among them
 * @param floor the floor's own events: a refusal that left no session stands nowhere else
 */
export function narrate(heard: readonly ServerEvent[], floor: readonly ServerEvent[], nameOf: Names): Line[] {
  const lines = tellHeard(heard, nameOf);
  for (const event of floor) {
    if (event.type !== "arbitration" || event.sessionId !== undefined) continue;
    const at = Date.parse(event.timestamp);
    const later = lines.findIndex((line) => line.at > at);
    const { agentId } = event.data.challenger;
    const told = tellBlocked(event.data).map((each) => ({ at, agentId, ...each }));
    lines.splice(later < 0 ? lines.length : later, 0, ...told);
  }
  return joinTexts(lines);
}

function tellHeard(events: readonly ServerEvent[], nameOf: Names): Piece[] {
  const lines: Piece[] = [];
  const agents = new Map<string, string>();
  /** What was decided about a session, until it comes into force. */
  const decided = new Map<string, Decision>();
  const texts = new TextTeller();
  for (const event of events) {
    const { sessionId = "" } = event;
    if (event.type === "session_created") agents.set(sessionId, event.data.agentId);
    if (event.type === "arbitration" && event.data.outcome === "granted") decided.set(sessionId, event.data);
    const told = [...tellEvent(event, decided.get(sessionId), nameOf), ...texts.tell(event)];
    const agentId = agents.get(sessionId) ?? sessionId;
    const at = Date.parse(event.timestamp);
    for (const each of told) lines.push({ at, agentId, ...each });
  }
  return lines;
}

type Told = Omit<Piece, "at" | "agentId">;

function tellEvent(event: ServerEvent, decision: Decision | undefined, nameOf: Names): Told[] {
  switch (event.type) {
    case "session_transition":
      return tellTransition(event.data, decision, nameOf);
    case "arbitration":
      return event.data.outcome === "granted" ? [] : tellBlocked(event.data);
    case "error":
      return [{ mark: "✗", style: "refused", text: `fails: ${event.data.message} (${event.data.errorCode})` }];
    default:
      return [];
  }
}

function tellTransition({ event, by }: Transition, decision: Decision | undefined, nameOf: Names): Told[] {
  switch (event) {
    case "activate":
      return [{ mark: "▶", style: "active", text: `has the floor${decision ? whyGranted(decision, nameOf) : ""}` }];
    case "resume":
      return [{ mark: "▶", style: "active", text: `goes on${decision ? whyGranted(decision, nameOf) : ""}` }];
    case "preempt":
      return [{ mark: "‖", style: "paused", text: by ? `is paused for ${nameOf(by.agentId)}` : "is paused" }];
    case "pause":
      return [{ mark: "‖", style: "paused", text: "is paused by its user" }];
    case "yield":
      return [{ mark: "‖", style: "paused", text: "has done its turn and gives the floor back" }];
    case "archive":
    case "expire":
      return [{ mark: "■", style: "quiet", text: "ends" }];
    default:
      return [];
  }
}

function whyGranted({ reason, challenger, holder, say }: Decision, nameOf: Names): string {
  const words = `(${reason}) “${say}”`;
  if (reason === "floor_free") return `: it was free ${words}`;
  if (reason !== "preempted" || !holder) return ` ${words}`;
  const right = holder.interruptible ? "may be interrupted" : "lets that much through";
  return `: ${challenger.priority} > ${holder.priority}, and ${nameOf(holder.agentId)} ${right} ${words}`;
}

function tellBlocked({ outcome, reason, challenger, holder, wouldNeed, say }: Decision): Told[] {
  const sign = reason === "equal_priority" ? "=" : reason === "lower_priority" ? "<" : "against";
  const numbers = holder ? `${challenger.priority} ${sign} ${holder.priority} ` : "";
  const isQueued = outcome === "queued";
  const style = isQueued ? "waiting" : "refused";
  const text = `${isQueued ? "waits" : "is refused"}: ${numbers}(${reason}) “${say}”`;
  const lines: Told[] = [{ mark: isQueued ? "·" : "✗", style, text }];
  if (wouldNeed !== undefined) lines.push({ mark: " ", style: "quiet", text: `would need ${wouldNeed}` });
  return lines;
}

const HEARD = "‹";
const SAID = "›";

/** What is new of each message, piece by piece. */
class TextTeller {
  readonly #texts = new MessageTexts();
  /** How much of a message was told. */
  readonly #told = new Map<string, number>();

  tell(event: ServerEvent): Told[] {
    const message = this.#texts.take(event);
    if (!message) return [];
    const { messageId, agent, text } = message;
    const from = this.#told.get(messageId) ?? 0;
    if (text.length <= from) return [];
    this.#told.set(messageId, text.length);
    return [{ mark: agent ? SAID : HEARD, text: text.slice(from), isMore: from > 0 }];
  }
}

/** What an agent said without anything happening in between is one line; text that goes on says so. */
function joinTexts(pieces: readonly Piece[]): Line[] {
  const lines: Line[] = [];
  for (const { isMore, ...line } of pieces) {
    const last = lines.at(-1);
    if (last?.mark === SAID && line.mark === SAID && last.agentId === line.agentId) last.text += line.text;
    else lines.push(isMore ? { ...line, text: `… ${line.text.trimStart()}` } : line);
  }
  return lines;
}
