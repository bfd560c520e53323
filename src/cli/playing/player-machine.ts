/**
 * One player's place on the floor, as a pure state machine: it has no clock and performs nothing. `player-session.ts`
 * reports to it what happens, and carries out the actions that it returns.
 *
 * Two rules hold in every phase. Only the newest state of the session, or a decision that refuses the player, pauses a
 * player. And there is one request at a time: what happens meanwhile is acted upon when the request is answered.
 */

import type { Session } from "../../protocol/session.ts";

/** What a player says of itself; `gone`: its connection has left the bus, or its stream has ended. */
export type Playback = "playing" | "paused" | "stopped" | "gone";

/** How a player's session stands, as its user is shown it. */
export type PlayerState = "none" | "active" | "ducked" | "paused" | "waits";

/** A session's state as of a `seq` of its log. `epoch` distinguishes the logs of two stores. */
export interface KnownState {
  readonly epoch: string;
  readonly seq: number;
  readonly state: Session["state"] | "deleted";
  readonly level: number;
  readonly cause: string;
  /** The floor brings it back by itself. Known when the session was loaded, and not of a transition. */
  readonly isWaiting?: boolean;
  /** It lost its place, for want of heartbeats as far as is known: the floor does not bring it back. */
  readonly isLapsed?: boolean;
}

export type PlayerRequest = "create" | "activate" | "resume" | "pause" | "archive";

export type Phase =
  /** It has no session, and does not want one. */
  | "away"
  /** The state of its session is not known yet: a former bridge left it, or it moved. The player stays as it is. */
  | "joining"
  /** It wants the floor. Until the node has decided, the player stays as its user left it. */
  | "asking"
  /** The floor lets it be heard. */
  | "heard"
  /** The floor holds it back: it waits, or is paused until somebody resumes it. */
  | "held"
  /** Its user has paused it, and the node does not know yet. */
  | "yielding"
  /** Its user has paused it. */
  | "resting"
  /** It was stopped, and its session is being ended. */
  | "ending"
  /** It is gone, or the bridge ends. Nothing follows. */
  | "over";

export interface PlayerMachine {
  readonly phase: Phase;
  readonly playback: Playback;
  readonly sessionId: string | undefined;
  /** The newest state of the session: answers and events may overtake one another. */
  readonly known: KnownState | undefined;
  /** The request that has not been answered. */
  readonly request: PlayerRequest | undefined;
  /** What the player was ordered a moment ago. `isAnswer`: in answer to what its user did in it. */
  readonly order: { to: "playing" | "paused"; isReported: boolean; isAnswer: boolean } | undefined;
  /** The bridge has paused it, and it plays again when the floor lets it. */
  readonly isPausedHere: boolean;
}

export type PlayerEvent =
  /** `isRepeat`: the player says of its playback alone, and in its own words, what it had said before. */
  | { type: "reported"; playback: Playback; isRepeat?: boolean }
  /** It has been stopped for longer than between two pieces. */
  | { type: "stayed stopped" }
  /** A while has passed since the newest order. */
  | { type: "order is old" }
  /** The session as its log or its row tells it. */
  | { type: "known"; known: KnownState }
  /** The session does not exist any more, as its stream says. */
  | { type: "lost" }
  /** The request was done. `say`: the decision's sentence. */
  | { type: "answered"; sessionId: string; known: KnownState; say: string }
  /** The request was refused by a decision of the floor. */
  | { type: "refused"; say: string }
  /** The request was for a session that does not exist any more. */
  | { type: "vanished"; sessionId?: string | undefined }
  /** The session goes on as another one, perhaps on another floor. `isAnswer`: the request was answered so. */
  | { type: "moved"; from: string; to: string; isAnswer?: boolean }
  /** The request failed, and not by a decision: an expired token, an unknown agent. */
  | { type: "faulted" }
  /** The request has no answer yet: the node is away. It is sent again. */
  | { type: "unanswered" }
  | { type: "try again" }
  /** The bridge ends. */
  | { type: "left" };

export type PlayerAction =
  | { type: "order"; to: "playing" | "paused" }
  /** Let it sound again where it was silenced. */
  | { type: "free" }
  /** Relative to the user's own volume, in dB: -60 to 0. */
  | { type: "level"; level: number }
  | { type: "request"; request: PlayerRequest; sessionId: string | undefined }
  /** Send what is still wanted after a pause. */
  | { type: "retry" }
  | { type: "follow"; sessionId: string }
  | { type: "show"; state: PlayerState; level: number; cause: string }
  | { type: "deny"; say: string }
  /** Nothing is left to do for this player. */
  | { type: "done" };

/** What an earlier bridge left of this player. */
export interface Left {
  readonly sessionId?: string | undefined;
  readonly isPausedHere: boolean;
}

export const newPlayerMachine = (left?: Left): PlayerMachine => ({
  phase: left ? "joining" : "away",
  playback: "stopped",
  sessionId: left?.sessionId,
  known: undefined,
  request: undefined,
  order: undefined,
  isPausedHere: left?.isPausedHere ?? false,
});

/** A machine in the middle of a step. */
type Draft = { -readonly [Key in keyof PlayerMachine]: PlayerMachine[Key] } & { actions: PlayerAction[] };
type Act = (draft: Draft) => void;
type Answer = Extract<PlayerEvent, { type: "answered" }>;

/** What a player's user does, and what becomes of its session. */
type Input = "plays" | "pauses" | "stops" | "known" | "lapsed" | "lost";

/** One row for each phase. What a phase does not name changes nothing but what the machine knows. */
const TABLE: Readonly<Record<Phase, Partial<Record<Input, Act>>>> = {
  away: { plays: ask },
  joining: { plays: joinWithoutSession, pauses: joinWithoutSession, stops: end, known: join, lapsed: join, lost: join },
  asking: { pauses: yieldFloor, stops: end, lost: askAgain },
  heard: { pauses: yieldFloor, stops: end, known: obey, lapsed: askIfWanted, lost: askIfWanted },
  held: { plays: ask, pauses: yieldFloor, stops: end, known: obey, lapsed: askIfWanted, lost: askIfWanted },
  yielding: { plays: ask, stops: end, lost: goAway },
  resting: { plays: ask, stops: end, known: obey, lost: goAway },
  ending: { plays: ask, lost: goAway },
  over: {},
};

/** What follows when a request is no longer under way. */
const AFTER_REQUEST: Partial<Record<Phase, (draft: Draft, done: PlayerRequest, answer?: Answer) => void>> = {
  asking: (draft, done, answer) => (isForFloor(done) && answer ? obeyAnswer(draft, answer) : send(draft)),
  yielding: (draft, done) => {
    if (done === "archive") goAway(draft);
    else if (done !== "pause") send(draft);
    else rest(draft);
  },
  ending: (draft, done) => (done === "archive" ? goAway(draft) : send(draft)),
  over: (draft) => send(draft),
};

/** Take an event. Returns the next machine and what is to be done, in this order. */
export function stepPlayer(machine: PlayerMachine, event: PlayerEvent): [PlayerMachine, readonly PlayerAction[]] {
  const draft: Draft = { ...machine, actions: [] };
  react(draft, event);
  const { actions, ...next } = draft;
  return [next, actions];
}

function react(draft: Draft, event: PlayerEvent): void {
  switch (event.type) {
    case "reported":
      return noteReport(draft, event.playback, event.isRepeat === true);
    case "stayed stopped":
      return draft.playback === "stopped" ? enter(draft, "stops") : undefined;
    case "order is old":
      draft.order = undefined;
      return;
    case "known":
      return note(draft, event.known) ? enter(draft, event.known.isLapsed ? "lapsed" : "known") : undefined;
    case "lost":
      forget(draft);
      return enter(draft, "lost");
    case "answered":
      return noteAnswer(draft, event);
    case "refused":
      return noteRefusal(draft, event.say);
    case "vanished":
      return noteVanished(draft, event.sessionId);
    case "moved":
      return noteMove(draft, event);
    case "faulted":
      return noteFault(draft);
    case "unanswered":
      return draft.phase === "asking" ? freeUnheard(draft) : undefined;
    case "try again":
      return draft.phase === "asking" || draft.phase === "yielding" ? send(draft) : undefined;
    case "left":
      return leave(draft, "the bridge ends");
  }
}

const enter = (draft: Draft, input: Input): void => TABLE[draft.phase][input]?.(draft);

/** Tell what the user does in the player from what the player does because it was ordered. */
function noteReport(draft: Draft, playback: Playback, isRepeat: boolean): void {
  const { order } = draft;
  if (playback === "gone") {
    draft.isPausedHere = false;
    return leave(draft, "the player has ended");
  }
  if (playback === draft.playback) {
    if (isRepeat && playback === "paused") noteRepeatedPause(draft);
    return;
  }
  draft.playback = playback;
  if (playback === "stopped") {
    // An order to pause finds nothing to pause any more: what it plays next is its user's.
    if (order?.to === "paused") draft.order = { ...order, isReported: true };
    return;
  }
  if (order?.to === playback && !order.isReported) {
    draft.order = { ...order, isReported: true };
    return;
  }
  // A report of an earlier order, for example of a pause after the order to play again.
  if (order && !order.isReported) return;
  // A player that obeys late: the floor holds it back in any case.
  if (playback === "paused" && draft.phase === "held") return;
  enter(draft, toInput(playback));
}

/**
 * A second report of a pause says that its user has pressed pause. Some players answer one order with two reports, so
 * this does not count a moment after the floor has ordered it.
 */
function noteRepeatedPause(draft: Draft): void {
  const { order, phase } = draft;
  const isUsers = !order || (order.isAnswer && order.isReported);
  if (phase === "held" && isUsers) enter(draft, "pauses");
}

const toInput = (playback: "playing" | "paused"): Input => (playback === "playing" ? "plays" : "pauses");

/** @returns whether it is news. A store that was restored has another epoch, and counts anew. */
function note(draft: Draft, known: KnownState): boolean {
  const { sessionId } = draft;
  const former = draft.known;
  if (sessionId === undefined || (former?.epoch === known.epoch && known.seq <= former.seq)) return false;
  draft.known = known;
  return true;
}

function noteAnswer(draft: Draft, answer: Answer): void {
  const { sessionId, known } = answer;
  const done = draft.request!;
  draft.request = undefined;
  if (done === "archive") forget(draft);
  else {
    if (done === "create") {
      draft.sessionId = sessionId;
      draft.actions.push({ type: "follow", sessionId });
    }
    if (sessionId === draft.sessionId) note(draft, known);
  }
  AFTER_REQUEST[draft.phase]?.(draft, done, answer);
}

function noteVanished(draft: Draft, sessionId: string | undefined): void {
  draft.request = undefined;
  if (sessionId !== undefined && sessionId !== draft.sessionId) return sendAgain(draft);
  forget(draft);
  if (draft.phase === "over") send(draft);
  else enter(draft, "lost");
}

function noteMove(draft: Draft, { from, to, isAnswer }: Extract<PlayerEvent, { type: "moved" }>): void {
  if (isAnswer) draft.request = undefined;
  if (draft.sessionId === from) {
    draft.sessionId = to;
    draft.known = undefined;
    if (/^(asking|heard|held)$/.test(draft.phase)) draft.phase = "joining";
    draft.actions.push({ type: "follow", sessionId: to });
  }
  if (isAnswer) sendAgain(draft);
}

/** The answer was about a former session: what is still wanted is requested of the present one. */
function sendAgain(draft: Draft): void {
  if (/^(asking|yielding|ending|over)$/.test(draft.phase)) send(draft);
}

function noteRefusal(draft: Draft, say: string): void {
  const done = draft.request!;
  draft.request = undefined;
  if (draft.phase !== "asking" || !isForFloor(done)) return AFTER_REQUEST[draft.phase]?.(draft, done);
  holdBack(draft, true);
  draft.isPausedHere = false;
  draft.phase = draft.sessionId === undefined ? "away" : "held";
  draft.actions.push({ type: "show", state: "paused", level: 0, cause: "" }, { type: "deny", say });
}

/** The node answered, but has decided nothing: the player goes on as it is. */
function noteFault(draft: Draft): void {
  const done = draft.request;
  draft.request = undefined;
  // The lease ends a session that cannot be archived. One that has moved meanwhile goes on.
  if (done === "archive" && draft.phase !== "joining") forget(draft);
  if (draft.phase === "asking") {
    freeUnheard(draft);
    draft.actions.push({ type: "retry" });
  } else if (draft.phase === "yielding") {
    if (draft.sessionId === undefined) goAway(draft);
    else draft.actions.push({ type: "retry" });
  } else if (done && (draft.phase === "ending" || draft.phase === "over")) AFTER_REQUEST[draft.phase]!(draft, done);
}

/** The user has played it, and no decision forbids it. */
function freeUnheard(draft: Draft): void {
  if (draft.playback === "playing" && !draft.isPausedHere) draft.actions.push({ type: "free" });
}

const isForFloor = (request: PlayerRequest): boolean =>
  request === "create" || request === "activate" || request === "resume";

function requestOf({ phase, sessionId, known }: Draft): PlayerRequest | undefined {
  if (sessionId === undefined) return phase === "asking" ? "create" : undefined;
  const isNew = known?.state === "created";
  if (phase === "asking") return isNew ? "activate" : "resume";
  // A session that has never had the floor cannot be paused.
  if (phase === "yielding") return isNew ? "archive" : "pause";
  return "archive";
}

/** Send what the phase needs, unless a request is under way. */
function send(draft: Draft): void {
  if (draft.request !== undefined) return;
  const request = requestOf(draft);
  if (request) {
    draft.request = request;
    draft.actions.push({ type: "request", request, sessionId: draft.sessionId });
  } else if (draft.phase === "over") draft.actions.push({ type: "done" });
  else goAway(draft);
}

function ask(draft: Draft): void {
  // Its user plays it, whoever has paused it.
  draft.isPausedHere = false;
  askAgain(draft);
}

function askAgain(draft: Draft): void {
  draft.phase = "asking";
  send(draft);
}

/** It has lost its session, or its place: it wants them again if it plays, or was paused by the bridge. */
function askIfWanted(draft: Draft): void {
  if (willPlay(draft) || draft.isPausedHere) askAgain(draft);
  else if (draft.sessionId === undefined) goAway(draft);
  else obey(draft);
}

function yieldFloor(draft: Draft): void {
  draft.isPausedHere = false;
  draft.phase = "yielding";
  send(draft);
}

/** The node knows that its user has paused it. It may have known of more since. */
function rest(draft: Draft): void {
  draft.phase = "resting";
  obey(draft);
}

function end(draft: Draft): void {
  draft.isPausedHere = false;
  // What it plays from now on it plays without a session, and has to ask.
  draft.order = undefined;
  draft.phase = "ending";
  draft.actions.push({ type: "show", state: "none", level: 0, cause: "it was stopped" });
  send(draft);
}

function goAway(draft: Draft): void {
  draft.phase = "away";
  draft.actions.push({ type: "show", state: "none", level: 0, cause: "" });
}

function leave(draft: Draft, cause: string): void {
  if (draft.phase === "over") return;
  draft.phase = "over";
  draft.actions.push({ type: "show", state: "none", level: 0, cause });
  send(draft);
}

function forget(draft: Draft): void {
  if (draft.sessionId === undefined) return;
  draft.sessionId = undefined;
  draft.known = undefined;
  draft.actions.push({ type: "level", level: 0 });
}

function obeyAnswer(draft: Draft, { known: answered, say }: Answer): void {
  const { known } = draft;
  // It has lost its place since the node decided.
  if (known?.isLapsed) return askIfWanted(draft);
  if (known && isAudible(known) && known.cause === "") draft.known = { ...known, cause: say };
  obey(draft, true);
  // What silenced it after it was granted is told as its state.
  if (draft.phase === "held" && !isAudible(answered)) draft.actions.push({ type: "deny", say });
}

/** Do what the newest state of the session demands. */
function obey(draft: Draft, isAnswer = false): void {
  const { known } = draft;
  if (!known) return;
  const { state, level, cause } = known;
  if (state === "active" || state === "ducked") return letPlay(draft, state, level, cause);
  if (isOver(known)) {
    holdBack(draft, isAnswer);
    draft.isPausedHere = false;
    draft.phase = "away";
    draft.actions.push({ type: "show", state: "paused", level: 0, cause });
    return forget(draft);
  }
  // Who moves a session asks for it, after its user has paused it.
  if (draft.phase !== "resting" || known.isWaiting) draft.phase = "held";
  holdBack(draft, isAnswer);
  // Silence comes first.
  draft.actions.push({ type: "level", level: 0 });
  draft.actions.push({ type: "show", state: state === "created" ? "waits" : "paused", level: 0, cause });
}

function letPlay(draft: Draft, state: "active" | "ducked", level: number, cause: string): void {
  draft.phase = "heard";
  draft.actions.push({ type: "level", level: state === "ducked" ? level : 0 });
  // An order to pause may be under way.
  const isPausing = draft.order?.to === "paused" || draft.isPausedHere;
  if (draft.playback === "paused" || (isPausing && draft.playback === "playing")) giveOrder(draft, "playing", false);
  else draft.actions.push({ type: "free" });
  draft.isPausedHere = false;
  draft.actions.push({ type: "show", state, level: state === "ducked" ? level : 0, cause });
}

function holdBack(draft: Draft, isAnswer: boolean): void {
  const isUnderWay = draft.order?.to === "paused" && !draft.order.isReported;
  if (isUnderWay || !willPlay(draft)) return;
  draft.isPausedHere = true;
  giveOrder(draft, "paused", isAnswer);
}

/** Whether it plays, or an order to play is under way. */
const willPlay = ({ playback, order }: Draft): boolean =>
  playback === "playing" || (order?.to === "playing" && !order.isReported);

function giveOrder(draft: Draft, to: "playing" | "paused", isAnswer: boolean): void {
  // An earlier order may be under way, whose report is not yet the answer to this one.
  const isUnderWay = draft.order !== undefined && !draft.order.isReported;
  draft.order = { to, isReported: !isUnderWay && draft.playback === to, isAnswer };
  draft.actions.push({ type: "order", to });
}

/** A player that a former bridge paused, and whose session that bridge ended. */
function joinWithoutSession(draft: Draft): void {
  if (draft.sessionId !== undefined) return;
  if (draft.playback === "playing") return ask(draft);
  if (draft.isPausedHere) return askAgain(draft);
  draft.phase = "away";
}

/** Go on where a former bridge ended: what it paused comes back, and what has changed since is its user's doing. */
function join(draft: Draft): void {
  const { known, playback, isPausedHere } = draft;
  // A pause that an earlier order has made is not its user's, if an order to play follows it.
  const isPausedByUser = !isPausedHere && !willPlay(draft) && playback === "paused";
  if (isPausedByUser && (isAudible(known) || known?.isWaiting)) return yieldFloor(draft);
  if (isAudible(known)) return obey(draft);
  if (isOver(known)) {
    // Somebody has ended it: only its user plays it again.
    if (known) draft.isPausedHere = false;
    forget(draft);
    return askIfWanted(draft);
  }
  if (willPlay(draft)) return ask(draft);
  if (isPausedByUser) return rest(draft);
  if (!known?.isWaiting) return askAgain(draft);
  // Streams that were left silent stay so.
  if (playback === "paused") giveOrder(draft, "paused", false);
  draft.phase = "held";
  draft.actions.push({ type: "show", state: known.state === "created" ? "waits" : "paused", level: 0, cause: "" });
}

const isAudible = (known: KnownState | undefined): boolean => known?.state === "active" || known?.state === "ducked";

const isOver = (known: KnownState | undefined): boolean =>
  known === undefined || /^(archived|deleted)$/.test(known.state);
