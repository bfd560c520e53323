import { MessageTexts } from "../client/message-texts.ts";
import type { ServerEvent } from "../client/server-event.ts";
import type { Decision } from "../protocol/decision.ts";
import type { Transition } from "../protocol/event.ts";
import type { Routed } from "../protocol/routed.ts";
import { RecentMap } from "../shared/recent-map.ts";
import { additionTo } from "../shared/text-piece.ts";
import type { Language } from "./language.ts";
import { NARRATION, type NarrationWords } from "./narration-words.ts";
import type { Style } from "./paint.ts";

/** One event, described in a line. */
export interface NarratedLine {
  /** ms since 1970. */
  at: number;
  agentId: string;
  mark: string;
  style?: Style;
  text: string;
}

/** A line before texts of the same agent are joined. */
export interface NarrationPiece extends NarratedLine {
  /** The piece continues a message that began earlier. */
  isMore?: boolean;
  /** The agent that says it, below the session's own: the path of sub-agents. */
  path?: readonly string[];
}

type Names = (agentId: string) => string;

export interface NarrationContext {
  nameOf: Names;
  words: NarrationWords;
}

/**
 * Describe what happened on a floor: which agent got it, which lost it and why, and what was said.
 *
 * @param received the events of its sessions, including texts, in the order in which a connection received them; or a
 *   whole log
 * @param floor further events of the floor: only they contain a refusal that left no session
 */
export function narrate(
  received: readonly ServerEvent[],
  floor: readonly ServerEvent[],
  nameOf: Names,
  language: Language = "en",
): NarratedLine[] {
  const narrator = new Narrator(nameOf, language);
  const lines = received.flatMap((event) => narrator.describe(event));
  for (const event of floor) {
    if (event.sessionId !== undefined) continue;
    const described = describeOnFloor(event, { nameOf, words: NARRATION[language] });
    const at = Date.parse(event.timestamp);
    const later = lines.findIndex((line) => line.at > at);
    lines.splice(later < 0 ? lines.length : later, 0, ...described);
  }
  return joinTexts(lines);
}

/** Describe an event of the floor alone: a refusal that left no session, or a sentence that no session hears. */
export function describeOnFloor(event: ServerEvent, context: NarrationContext): NarratedLine[] {
  const at = Date.parse(event.timestamp);
  const lines = (agentId: string, described: Description[]) => described.map((each) => ({ at, agentId, ...each }));
  if (event.type === "arbitration")
    return lines(event.data.challenger.agentId, describeBlocked(event.data, context.words));
  if (event.type === "routed") return lines(event.data.agent ?? "", describeRouted(event.data, context));
  return [];
}

/** Describes the events of sessions one by one, in the order in which a stream delivers them. */
export class Narrator {
  readonly #context: NarrationContext;
  readonly #agents = new Map<string, string>();
  /** The newest grant of each session, for the transition that follows it. */
  readonly #decided = new Map<string, Decision>();
  readonly #texts = new NewTexts();

  constructor(nameOf: Names, language: Language = "en") {
    this.#context = { nameOf, words: NARRATION[language] };
  }

  /** Name the agent of a session whose creation is not among the events. */
  meet(sessionId: string, agentId: string): void {
    this.#agents.set(sessionId, agentId);
  }

  describe(event: ServerEvent): NarrationPiece[] {
    const isAboutFloor = event.type === "routed" || event.type === "arbitration";
    if (isAboutFloor && event.sessionId === undefined) return describeOnFloor(event, this.#context);
    const { sessionId = "" } = event;
    if (event.type === "session_created") this.meet(sessionId, event.data.agentId);
    if (event.type === "agent_switched") this.meet(sessionId, event.data.currentAgentId);
    if (event.type === "arbitration" && event.data.outcome === "granted") this.#decided.set(sessionId, event.data);
    const described = describeEvent(event, this.#decided.get(sessionId), this.#context);
    const agentId = this.#agents.get(sessionId) ?? sessionId;
    const at = Date.parse(event.timestamp);
    return [...described, ...this.#texts.extract(event)].map((each) => ({ at, agentId, ...each }));
  }
}

type Description = Omit<NarrationPiece, "at" | "agentId">;

function describeEvent(event: ServerEvent, decision: Decision | undefined, context: NarrationContext): Description[] {
  switch (event.type) {
    case "session_transition":
      return describeTransition(event.data, decision, context);
    case "arbitration":
      return event.data.outcome === "granted" ? [] : describeBlocked(event.data, context.words);
    case "routed":
      return describeRouted(event.data, context);
    case "error": {
      // The refusal of a request: its decision or its answer says the same.
      if (event.data.runId === undefined) return [];
      const text = `${context.words.fails}${event.data.message} (${event.data.errorCode})`;
      return [{ mark: "✗", style: "refused", text }];
    }
    default:
      return [];
  }
}

/** Who hears a sentence, and by which row of `routing`. */
function describeRouted(
  { agent, by, row = 0, alternatives }: Routed,
  { nameOf, words }: NarrationContext,
): Description[] {
  const others = alternatives.length > 0 ? words.orElse(alternatives.map(nameOf).join(", ")) : "";
  const verb = agent === undefined ? words.nobodyHears : words.hears;
  return [{ mark: "‹", style: "quiet", text: `${verb}${words.routedBy[by](row)}${others}` }];
}

const inFront = (text: string): Description[] => [{ mark: "▶", style: "active", text }];
const paused = (text: string): Description[] => [{ mark: "‖", style: "paused", text }];
const ended = (text: string): Description[] => [{ mark: "■", style: "quiet", text }];

function describeTransition(
  transition: Transition,
  decision: Decision | undefined,
  { nameOf, words }: NarrationContext,
) {
  const { event, from, reason, by, movedTo } = transition;
  const who = by && nameOf(by.agentId);
  switch (event) {
    case "activate":
      return inFront(`${words.hasFloor}${whyGranted(decision, { nameOf, words })}`);
    case "duck":
      return [{ mark: "▽", style: "ducked" as const, text: howDucked(transition, { nameOf, words }) }];
    case "resume":
      if (from.startsWith("ducked")) return inFront(words.inFront);
      return inFront(`${words.goesOn}${whyGranted(decision, { nameOf, words })}`);
    case "preempt":
      if (reason === "restricted") return paused(words.restricted);
      return paused(who === undefined ? words.isPaused : words.pausedFor(who));
    case "pause":
      return paused(words.pausedByUser);
    case "yield":
      return paused(whyYielded(transition, words));
    case "archive":
    case "expire":
      if (movedTo !== undefined) return ended(words.movesTo(movedTo));
      if (reason === "missed") return ended(words.missed);
      return ended(reason === "replaced" && who !== undefined ? words.replacedBy(who) : words.ends);
    default:
      return [];
  }
}

function howDucked({ from, by, level = 0 }: Transition, { nameOf, words }: NarrationContext): string {
  const verb = from === "created" ? words.starts : from === "paused" ? words.comesBack : words.goesOn;
  const volume = level === 0 ? words.ownVolume : words.quieter(-level);
  return words.ducked(verb, by && nameOf(by.agentId), volume);
}

function whyYielded({ reason, from }: Transition, words: NarrationWords): string {
  if (reason === "max_hold") return words.maxHold;
  if (reason === "after_turn" && from === "created") return words.waitsNoMore;
  if (reason === "idle_timeout") return words.idleTooLong;
  if (reason === "idle_yields") return words.givesWay;
  if (reason === "resume_within") return words.silentTooLong;
  if (reason === "queue_timeout") return words.waitedTooLong;
  if (reason !== "lease_expired") return words.turnDone;
  return from === "paused" ? words.lostForGood : words.lost;
}

function whyGranted(decision: Decision | undefined, { nameOf, words }: NarrationContext): string {
  if (!decision) return "";
  const { reason, challenger, holder, say } = decision;
  const sentence = `(${reason}) “${say}”`;
  if (reason === "floor_free") return `${words.wasFree} ${sentence}`;
  if (reason !== "preempted" || !holder) return ` ${sentence}`;
  const right = holder.interruptible ? words.mayInterrupt : words.letsThrough;
  // With `ties: newest` and `yields_to` an equal gives way.
  const sign = challenger.priority > holder.priority ? ">" : "=";
  return `${right(`${challenger.priority} ${sign} ${holder.priority}`, nameOf(holder.agentId))} ${sentence}`;
}

/** A decision against the challenger, in a line or two. */
export function describeBlocked(
  { outcome, reason, challenger, holder, wouldNeed, say }: Decision,
  words: NarrationWords = NARRATION.en,
): Description[] {
  const { priority } = challenger;
  // A critical holder blocks higher priorities too.
  const isLess = reason === "lower_priority" && holder !== undefined && priority < holder.priority;
  const sign = reason === "equal_priority" ? "=" : isLess ? "<" : words.against;
  const numbers = holder ? `${priority} ${sign} ${holder.priority} ` : "";
  const isQueued = outcome === "queued";
  const style = isQueued ? "waiting" : "refused";
  const text = `${isQueued ? words.waits : words.isRefused}${numbers}(${reason}) “${say}”`;
  const lines: Description[] = [{ mark: isQueued ? "·" : "✗", style, text }];
  if (wouldNeed !== undefined) lines.push({ mark: " ", style: "quiet", text: `${words.wouldNeed} ${wouldNeed}` });
  return lines;
}

/** The marks of what a user says, and of what an agent says. */
export const USER_MARK = "‹";
export const AGENT_MARK = "›";

/** Messages whose length is remembered. */
const MAX_LENGTHS = 1_024;

/** Extracts the new text of each message, piece by piece. */
class NewTexts {
  readonly #texts = new MessageTexts();
  /** The length of each message's text that was already returned, in UTF-16 units, by session and message. */
  readonly #lengths = new RecentMap<string, number>(MAX_LENGTHS);

  extract(event: ServerEvent): Description[] {
    const message = this.#texts.take(event);
    if (!message) return [];
    const { messageId, sessionId, agent, text } = message;
    const key = `${sessionId} ${messageId}`;
    const from = this.#lengths.get(key) ?? 0;
    if (text.length <= from) return [];
    this.#lengths.set(key, text.length);
    // A delta contains the new text: slicing it out of the whole text would copy the whole text each time.
    const added = additionTo(from, event.type === "delta" ? event.data : { offset: 0, text }) ?? "";
    return [
      {
        mark: agent ? AGENT_MARK : USER_MARK,
        text: added,
        isMore: from > 0,
        ...(agent && { path: agent.path.slice(1) }),
      },
    ];
  }
}

/** Join consecutive texts of one agent into one line. A text that continues an earlier one begins with an ellipsis. */
function joinTexts(pieces: readonly NarrationPiece[]): NarratedLine[] {
  const lines: NarratedLine[] = [];
  for (const { isMore, path: _, ...line } of pieces) {
    const last = lines.at(-1);
    if (last?.mark === AGENT_MARK && line.mark === AGENT_MARK && last.agentId === line.agentId) last.text += line.text;
    else lines.push(isMore ? { ...line, text: `… ${line.text.trimStart()}` } : line);
  }
  return lines;
}
