/**
 * A player's session: it reports to the player's machine (`player-machine.ts`) what the player, its user and the node
 * do, and carries out what the machine decides.
 */

import { randomUUID } from "node:crypto";
import { pauseFor } from "../../client/delay.ts";
import { type Client, ClientError, keepLease, type Lease, type SessionAnswer } from "../../client/interlock-client.ts";
import type { ServerEvent } from "../../client/server-event.ts";
import { parseLogPosition } from "../../protocol/position.ts";
import type { Session } from "../../protocol/session.ts";
import { isContinued, readState } from "../../protocol/written-state.ts";
import {
  type KnownState,
  type Left,
  newPlayerMachine,
  type Playback,
  type PlayerAction,
  type PlayerEvent,
  type PlayerMachine,
  type PlayerRequest,
  type PlayerState,
  stepPlayer,
} from "./player-machine.ts";

/** A player as its session uses it. Orders return at once, and are carried out in their order. */
export interface Playing {
  readonly name: string;
  /** What it plays; undefined if it does not say. */
  readonly title: string | undefined;
  play(): void;
  pause(): void;
  /** Let it sound again if it was silenced, whether or not it plays. */
  free(): void;
  /** @param level relative to the user's own volume, in dB: -60 to 0 */
  setLevel(level: number): void;
}

/** Where a player's sessions compete, and as which agent. */
export interface WantedPlayerSession {
  agentId: string;
  userId: string;
  /** Default: the user's floor without a zone. */
  zone?: string;
}

/** What a player's session tells its user. */
export interface PlayerSessionListener {
  onState(state: PlayerState, level: number, text: string): void;
  /** The user wants it to play, and it was refused or has to wait: `say` is a sentence that says why. */
  onDenied(say: string): void;
  /** The node answered a request, but not with a decision; undefined: it has decided again, or the player is gone. */
  onFault(error: ClientError | undefined): void;
  /** What the next bridge has to know of this player; undefined: nothing. */
  onLeft(left: Left | undefined): void;
}

/** How long a player may be stopped between two pieces, in ms. */
const BETWEEN_PIECES_MS = 500;
/** How long a player may take to obey, in ms. What it reports before is not yet what its user did. */
const OBEYS_WITHIN_MS = 1_000;
/** The pause before a request is sent again that the node did not answer, in ms. */
const AGAIN_MS = 1_000;
/** The pause before a request is sent again that failed, in ms: a token or a catalogue may be another by then. */
const AFTER_FAULT_MS = 5_000;

const GONE: ReadonlySet<string> = new Set(["session_not_found", "session_archived"]);

export class PlayerSession {
  readonly #client: Client;
  readonly #wanted: WantedPlayerSession;
  readonly #player: Playing;
  readonly #listener: PlayerSessionListener;
  readonly #leaving = new AbortController();
  readonly #done = Promise.withResolvers<void>();
  readonly #timers: Partial<Record<"stopped" | "order" | "retry", ReturnType<typeof setTimeout>>> = {};
  #machine: PlayerMachine;
  #shown: { state: PlayerState; level: number } = { state: "none", level: 0 };
  /** The request for a session, until the node answers: a repeat gets the session that was made without an answer. */
  #creation: { idempotencyKey: string; title: string } | undefined;
  /** The session has the player's name, because the player said no title when it began to play. */
  #isUntitled = false;

  /** @param left what an earlier bridge left of this player */
  constructor(
    client: Client,
    wanted: WantedPlayerSession,
    player: Playing,
    listener: PlayerSessionListener,
    left?: Left,
  ) {
    this.#client = client;
    this.#wanted = wanted;
    this.#player = player;
    this.#listener = listener;
    this.#machine = newPlayerMachine(left);
    if (left?.sessionId !== undefined) void this.#follow(left.sessionId);
  }

  /**
   * The player has changed.
   * @param isRepeat it says of its playback alone, in words of its own, what it had said before
   */
  observe(playback: Playback, isRepeat = false): void {
    this.#addTitle();
    const { stopped } = this.#timers;
    if (playback !== "stopped") clearTimeout(stopped);
    else if (this.#machine.playback !== "stopped" || stopped === undefined)
      this.#after("stopped", BETWEEN_PIECES_MS, { type: "stayed stopped" });
    this.#take({ type: "reported", playback, isRepeat });
  }

  /** The bridge ends. Resolves when the session has ended, or the node does not answer. */
  async leave(): Promise<void> {
    this.#take({ type: "left" });
    await this.#done.promise;
  }

  #take(event: PlayerEvent): void {
    const former = this.#machine;
    const [machine, actions] = stepPlayer(former, event);
    this.#machine = machine;
    // Kept before the player is paused.
    const { sessionId, isPausedHere, phase } = machine;
    if (sessionId !== former.sessionId || isPausedHere !== former.isPausedHere) {
      this.#listener.onLeft(sessionId === undefined && !isPausedHere ? undefined : { sessionId, isPausedHere });
    }
    if (phase === "over" && former.phase !== "over") {
      this.#leaving.abort();
      this.#listener.onFault(undefined);
    }
    for (const action of actions) this.#perform(action);
  }

  #perform(action: PlayerAction): void {
    const player = this.#player;
    switch (action.type) {
      case "order":
        this.#after("order", OBEYS_WITHIN_MS, { type: "order is old" });
        return action.to === "playing" ? player.play() : player.pause();
      case "free":
        return player.free();
      case "level":
        return player.setLevel(action.level);
      case "request":
        return void this.#send(action.request, action.sessionId);
      case "retry":
        return this.#after("retry", AFTER_FAULT_MS, { type: "try again" });
      case "follow":
        return void this.#follow(action.sessionId);
      case "show":
        return this.#show(action.state, action.level, action.cause);
      case "deny":
        return this.#listener.onDenied(action.say);
      case "done":
        for (const timer of Object.values(this.#timers)) clearTimeout(timer);
        return this.#done.resolve();
    }
  }

  #after(name: "stopped" | "order" | "retry", ms: number, event: PlayerEvent): void {
    clearTimeout(this.#timers[name]);
    this.#timers[name] = setTimeout(() => this.#take(event), ms).unref();
  }

  #show(state: PlayerState, level: number, cause: string): void {
    if (state === this.#shown.state && level === this.#shown.level) return;
    this.#shown = { state, level };
    this.#listener.onState(state, level, cause);
  }

  /** Send a request until it is answered. While the node is away the player stays as it is. */
  async #send(request: PlayerRequest, sessionId: string | undefined): Promise<void> {
    for (;;) {
      try {
        const answer = await this.#request(request, sessionId);
        this.#noteFault(undefined);
        const { session, decision } = answer;
        this.#take({ type: "answered", sessionId: session.id, known: knownBy(answer), say: decision?.say ?? "" });
        return this.#addTitle();
      } catch (error) {
        if (!(error instanceof ClientError)) throw error;
        const isUnanswered = error.wantsRepeat && request !== "archive" && !this.#leaving.signal.aborted;
        if (!isUnanswered) return this.#fail(error, sessionId);
        this.#take({ type: "unanswered" });
        await pauseFor(AGAIN_MS);
      }
    }
  }

  #fail(error: ClientError, sessionId: string | undefined): void {
    // After another failure an earlier attempt may still have made the session.
    if (/^(bad_request|rejected|.*_not_found)$/.test(error.code)) this.#creation = undefined;
    const { decision, replacedBy } = error.facts;
    if (sessionId !== undefined && replacedBy !== undefined)
      return this.#take({ type: "moved", from: sessionId, to: replacedBy, isAnswer: true });
    if (GONE.has(error.code)) return this.#take({ type: "vanished", sessionId });
    if (error.code === "rejected" && decision) {
      this.#noteFault(undefined);
      return this.#take({ type: "refused", say: decision.say ?? error.message });
    }
    if (!error.wantsRepeat) this.#noteFault(error);
    this.#take({ type: "faulted" });
  }

  /** Faults of a player that has gone are not reported. */
  #noteFault(error: ClientError | undefined): void {
    if (!this.#leaving.signal.aborted) this.#listener.onFault(error);
  }

  #request(request: PlayerRequest, sessionId: string | undefined): Promise<SessionAnswer> {
    if (sessionId === undefined) return this.#create();
    if (request === "activate") return this.#client.activateSession(sessionId);
    if (request === "resume") return this.#client.resumeSession(sessionId);
    if (request === "pause") return this.#client.pauseSession(sessionId);
    return this.#client.archiveSession(sessionId);
  }

  async #create(): Promise<SessionAnswer> {
    if (!this.#creation) {
      this.#isUntitled = this.#player.title === undefined;
      this.#creation = { idempotencyKey: randomUUID(), title: this.#player.title ?? this.#player.name };
    }
    const { idempotencyKey, title } = this.#creation;
    const request = { ...this.#wanted, activate: true, title };
    const answer = await this.#client.createSession(request, { idempotencyKey });
    this.#creation = undefined;
    return answer;
  }

  /** A player may say what it plays after it has begun. */
  #addTitle(): void {
    const { sessionId } = this.#machine;
    const { title } = this.#player;
    if (!this.#isUntitled || sessionId === undefined || title === undefined) return;
    this.#isUntitled = false;
    // Without an answer the session keeps the player's name, which is no harm.
    this.#client.renameSession(sessionId, title).catch(() => {});
  }

  /** Follow the session until it ends. */
  async #follow(sessionId: string): Promise<void> {
    const lease = keepLease(this.#client, sessionId, true);
    try {
      while (this.#isCurrent(sessionId)) {
        const pauseMs = await this.#read(sessionId, lease).catch((error: unknown) =>
          this.#failToRead(sessionId, error),
        );
        await pauseFor(pauseMs ?? 0);
      }
    } finally {
      lease.stop();
    }
  }

  /** @returns how long to wait before the session is read again, in ms */
  #failToRead(sessionId: string, error: unknown): number {
    if (!this.#isCurrent(sessionId)) return 0;
    if (!(error instanceof ClientError)) throw error;
    if (error.wantsRepeat) return AGAIN_MS;
    if (GONE.has(error.code)) this.#take({ type: "lost" });
    else this.#noteFault(error);
    return AFTER_FAULT_MS;
  }

  #isCurrent(sessionId: string): boolean {
    return this.#machine.sessionId === sessionId && !this.#leaving.signal.aborted;
  }

  /** From the session's present state, until its stream cannot continue. */
  async #read(sessionId: string, lease: Lease): Promise<void> {
    const { signal } = this.#leaving;
    const { session, position } = await this.#client.loadSession({ sessionId }, { signal });
    lease.note(session as Session);
    if (!this.#isCurrent(sessionId)) return;
    const { replacedBy } = session as Session;
    if (replacedBy !== undefined) return this.#take({ type: "moved", from: sessionId, to: replacedBy });
    this.#take({ type: "known", known: knownBy({ session: session as Session, position }) });
    for await (const event of this.#client.openSession(sessionId, { position, signal })) {
      if (!this.#isCurrent(sessionId) || event.type === "reset") return;
      const news = newsOf(event, sessionId, parseLogPosition(position)?.epoch ?? "");
      if (news) this.#take(news);
    }
  }
}

/** What an event of a session's stream says to the machine. */
function newsOf(event: ServerEvent, sessionId: string, epoch: string): PlayerEvent | undefined {
  const { seq = 0 } = event;
  if (event.type === "session_transition") {
    const { to, level = 0, reason, by } = event.data;
    if (isContinued(reason) && by) return { type: "moved", from: sessionId, to: by.sessionId };
    const [state] = readState(to);
    const cause = by ? `${reason} by ${by.agentId}` : (reason ?? "");
    return { type: "known", known: { epoch, seq, state, level, cause, isLapsed: reason === "lease_expired" } };
  }
  if (event.type !== "arbitration" || event.data.reason !== "lease_expired") return undefined;
  // A session that has never had the floor leaves the queue without a transition.
  return { type: "known", known: { epoch, seq, state: "created", level: 0, cause: "", isLapsed: true } };
}

/** A session's state as an answer has it. */
function knownBy({ session, position }: Pick<SessionAnswer, "session"> & { position?: string }): KnownState {
  const { epoch, seq } = parseLogPosition(position ?? "") ?? { epoch: "", seq: 0 };
  const { state, level = 0, pausedBy, queuedAt } = session;
  const isWaiting = state === "created" ? queuedAt !== undefined : pausedBy === "preemption";
  const isLapsed = state === "created" ? !isWaiting : pausedBy === "yield";
  return { epoch, seq, state, level, cause: "", isWaiting, isLapsed };
}
