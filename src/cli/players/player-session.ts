/**
 * A player's place on the floor: one session, from the moment the player begins to play. The player obeys the session's
 * transitions, and what the user does in the player becomes a request.
 */

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, ClientError, keepLease, type Lease, type SessionAnswer } from "../../client/interlock-client.ts";
import { parseLogPosition } from "../../protocol/position.ts";
import type { Session } from "../../protocol/session.ts";
import { readState } from "../../protocol/written-state.ts";

/** A player as its session uses it. Orders return at once, and are carried out in their order. */
export interface Playing {
  readonly name: string;
  /** What it plays; undefined if it does not say. */
  readonly title: string | undefined;
  readonly pid: number | undefined;
  play(): void;
  pause(): void;
  /** @param level relative to the user's own volume, in dB: -60 to 0 */
  setLevel(level: number): void;
}

export type Playback = "playing" | "paused" | "stopped" | "gone";

/** What a player's session tells its user. */
export interface PlayerSessionListener {
  onState(state: PlayerState, level: number, text: string): void;
  /** The user wants it to play, and it was refused or has to wait: `say` is a sentence that says why. */
  onDenied(say: string): void;
  onSession(sessionId: string | undefined): void;
}

export type PlayerState = "none" | "active" | "ducked" | "paused" | "waits";

/** How long a player may be stopped between two pieces, in ms. */
const BETWEEN_PIECES_MS = 500;
/** How long a player may take to obey, in ms. What it reports before is not yet what its user did. */
const OBEYS_WITHIN_MS = 1_000;
/** The pause before a request is sent again that the node did not answer, in ms. */
const AGAIN_MS = 1_000;

/** A session's state as of a `seq` of its log. `epoch` distinguishes the logs of two stores. */
interface Known {
  readonly epoch: string;
  readonly seq: number;
  readonly state: Session["state"] | "deleted";
  readonly level: number;
  readonly cause: string;
}

export class PlayerSession {
  readonly #client: Client;
  readonly #agentId: string;
  readonly #userId: string;
  readonly #player: Playing;
  readonly #listener: PlayerSessionListener;
  readonly #leaving = new AbortController();
  #sessionId: string | undefined;
  #state: PlayerState = "none";
  #level = 0;
  /** The newest state of the session: answers and events may overtake one another. */
  #known: Known | undefined;
  /** The newest order to the player, or what it does by itself with the floor's consent. */
  #target: "playing" | "paused" | undefined;
  #observed: Playback = "stopped";
  /** The order that the player has not reported back yet. */
  #ordered: "playing" | "paused" | undefined;
  #ordering: ReturnType<typeof setTimeout> | undefined;
  /** It was ordered to pause while it played. */
  #hasPaused = false;
  /** What the user did in the player and the node does not know yet. */
  #wish: "play" | "pause" | undefined;
  #isSending = false;
  /** The request for a session, until the node answers: a repeat gets the session that was made without an answer. */
  #creation: { idempotencyKey: string; title: string } | undefined;
  /** The session has the player's name, because the player said no title when it began to play. */
  #isUntitled = false;
  #stopping: ReturnType<typeof setTimeout> | undefined;

  constructor(client: Client, agentId: string, userId: string, player: Playing, listener: PlayerSessionListener) {
    this.#client = client;
    this.#agentId = agentId;
    this.#userId = userId;
    this.#player = player;
    this.#listener = listener;
  }

  /** Go on with the session that an earlier bridge made for this player. */
  continueWith(sessionId: string): void {
    this.#begin(sessionId);
  }

  /** The player has changed. The same playback twice is one change. */
  observe(playback: Playback): void {
    this.#addTitle();
    if (playback === this.#observed || this.#leaving.signal.aborted) return;
    this.#observed = playback;
    clearTimeout(this.#stopping);
    if (playback === "gone") return void this.leave("the player has ended");
    if (playback === "stopped") return this.#endUnlessPlayed();
    // A report of an earlier order, for example of a pause after the order to play again.
    if (this.#ordered !== undefined && this.#ordered !== playback) return;
    const isObeying = this.#ordered !== undefined;
    this.#ordered = undefined;
    if (playback === "playing" && this.#target !== "playing") void this.#sendWish("play");
    else if (playback === "paused" && (this.#target === "playing" || (this.#isSending && !isObeying))) {
      this.#target = "paused";
      void this.#sendWish("pause");
    }
  }

  #endUnlessPlayed(): void {
    clearTimeout(this.#stopping);
    this.#stopping = setTimeout(() => void this.#end("it was stopped"), BETWEEN_PIECES_MS);
  }

  #order(order: "playing" | "paused"): void {
    clearTimeout(this.#ordering);
    // An earlier order may be under way.
    if (this.#ordered !== undefined || order !== this.#observed) this.#ordered = order;
    this.#ordering = setTimeout(() => {
      this.#ordered = undefined;
    }, OBEYS_WITHIN_MS).unref();
    if (order === "playing") this.#player.play();
    else this.#player.pause();
  }

  /** End the session, and follow it no longer. */
  async leave(why: string): Promise<void> {
    if (this.#leaving.signal.aborted) return;
    clearTimeout(this.#stopping);
    await this.#end(why);
    this.#leaving.abort();
  }

  /**
   * Send what the user did, until the node has answered. Meanwhile the player stays as the user left it; afterwards it
   * obeys the session's newest state.
   */
  async #sendWish(wish: "play" | "pause"): Promise<void> {
    this.#wish = wish;
    if (this.#isSending) return;
    this.#isSending = true;
    try {
      while (this.#wish && !this.#leaving.signal.aborted) {
        const sent: "play" | "pause" = this.#wish;
        this.#wish = undefined;
        if (await this.#request(sent)) continue;
        this.#wish ??= sent;
        await sleep(AGAIN_MS, undefined, { ref: false });
      }
    } finally {
      this.#isSending = false;
    }
    this.#obeyNewest();
  }

  /** @returns false if the node gave no answer */
  async #request(wish: "play" | "pause"): Promise<boolean> {
    const id = this.#sessionId;
    try {
      if (wish === "pause" && id !== undefined) this.#note(await this.#client.pauseSession(id), "");
      if (wish === "pause" && (id !== undefined || !this.#creation)) return true;
      const answer = await (id === undefined ? this.#create() : this.#client.resumeSession(id));
      if (this.#leaving.signal.aborted) await this.#client.archiveSession(answer.session.id);
      else this.#handleAnswer(answer, id === undefined);
      // The session had been made, and is there to be paused only now.
      if (wish === "pause") this.#wish ??= wish;
      return true;
    } catch (error) {
      return this.#fail(error, wish);
    }
  }

  #handleAnswer(answer: SessionAnswer, isNew: boolean): void {
    const { id, state } = answer.session;
    const say = answer.decision?.say ?? "";
    const isAudible = state === "active" || state === "ducked";
    this.#note(answer, isAudible ? say : "");
    if (!isAudible) this.#listener.onDenied(say);
    if (isNew) this.#begin(id);
    this.#addTitle();
    // It was stopped before the node answered.
    if (this.#observed === "stopped") this.#endUnlessPlayed();
  }

  async #create(): ReturnType<Client["createSession"]> {
    if (!this.#creation) {
      this.#isUntitled = this.#player.title === undefined;
      this.#creation = { idempotencyKey: randomUUID(), title: this.#player.title ?? this.#player.name };
    }
    const { idempotencyKey, title } = this.#creation;
    const wanted = { agentId: this.#agentId, userId: this.#userId, activate: true, title };
    const answer = await this.#client.createSession(wanted, { idempotencyKey });
    this.#creation = undefined;
    return answer;
  }

  /** A player may say what it plays after it has begun. */
  #addTitle(): void {
    const [id, title] = [this.#sessionId, this.#player.title];
    if (!this.#isUntitled || id === undefined || title === undefined) return;
    this.#isUntitled = false;
    // Without an answer the session keeps the player's name, which is no harm.
    this.#client.renameSession(id, title).catch(() => {});
  }

  /** @returns whether the failure is an answer */
  #fail(error: unknown, wish: "play" | "pause"): boolean {
    if (!(error instanceof ClientError)) throw error;
    if (error.wantsRepeat) return false;
    this.#creation = undefined;
    if (error.code === "session_not_found" || error.code === "session_archived") {
      this.#forget();
      return wish === "pause";
    }
    // A session that is paused already is as its user wants it.
    if (wish === "play" && this.#observed === "playing") {
      this.#obey("paused", 0, "");
      this.#listener.onDenied(error.facts.decision?.say ?? error.message);
    }
    return true;
  }

  async #end(why: string): Promise<void> {
    const id = this.#sessionId;
    this.#wish = undefined;
    this.#creation = undefined;
    if (id === undefined) return;
    this.#forget();
    this.#listener.onState("none", 0, why);
    try {
      await this.#client.archiveSession(id);
    } catch (error) {
      // Its lease ends it if the node is away.
      if (!(error instanceof ClientError)) throw error;
    }
  }

  #forget(): void {
    this.#sessionId = undefined;
    this.#known = undefined;
    this.#state = "none";
    this.#target = undefined;
    this.#player.setLevel(0);
    this.#listener.onSession(undefined);
  }

  #begin(sessionId: string): void {
    this.#sessionId = sessionId;
    this.#listener.onSession(sessionId);
    void this.#watch(sessionId);
  }

  /** Obey the session until it ends. While the node is away the player stays as it is. */
  async #watch(sessionId: string): Promise<void> {
    const lease = keepLease(this.#client, sessionId, true);
    try {
      while (this.#isCurrent(sessionId)) {
        await this.#read(sessionId, lease).catch(async (error: unknown) => {
          if (this.#leaving.signal.aborted) return;
          if (!(error instanceof ClientError)) throw error;
          if (error.wantsRepeat) return await sleep(AGAIN_MS, undefined, { ref: false });
          if (this.#isCurrent(sessionId)) this.#forget();
          // The store was lost: ask anew for what still plays.
          if (this.#observed === "playing") void this.#sendWish("play");
        });
      }
    } finally {
      lease.stop();
    }
  }

  #isCurrent(sessionId: string): boolean {
    return this.#sessionId === sessionId && !this.#leaving.signal.aborted;
  }

  /** From the session's present state, until its stream cannot continue. */
  async #read(sessionId: string, lease: Lease): Promise<void> {
    const { signal } = this.#leaving;
    const { session, position } = await this.#client.loadSession({ sessionId }, { signal });
    lease.note(session as Session);
    if (this.#isCurrent(sessionId)) this.#note({ session: session as Session, position }, "");
    for await (const event of this.#client.openSession(sessionId, { position, signal })) {
      if (!this.#isCurrent(sessionId) || event.type === "reset") return;
      if (event.type !== "session_transition") continue;
      const { to, level = 0, reason, by } = event.data;
      const [state] = readState(to);
      const { epoch = "" } = parseLogPosition(position) ?? {};
      // The node was away, or this machine slept: ask again for what still plays.
      if (reason === "lease_expired" && this.#target === "playing" && this.#observed === "playing")
        void this.#sendWish("play");
      this.#update({
        epoch,
        seq: event.seq ?? 0,
        state,
        level,
        cause: by ? `${reason} by ${by.agentId}` : (reason ?? ""),
      });
    }
  }

  #note({ session, position }: { session: Pick<Session, "state" | "level">; position?: string }, cause: string): void {
    const parsed = parseLogPosition(position ?? "");
    if (parsed) this.#update({ ...parsed, state: session.state, level: session.level ?? 0, cause });
  }

  /** A store that was restored has another epoch, and counts anew. */
  #update(known: Known): void {
    if (this.#known?.epoch === known.epoch && known.seq < this.#known.seq) return;
    this.#known = known;
    if (!this.#isSending) this.#obeyNewest();
  }

  #obeyNewest(): void {
    if (!this.#known) return;
    const { state, level, cause } = this.#known;
    if (state === "active") this.#obey("active", 0, cause);
    else if (state === "ducked") this.#obey("ducked", level, cause);
    else this.#obey(state === "created" ? "waits" : "paused", 0, cause);
    if (state === "archived") this.#forget();
  }

  #obey(state: PlayerState, level: number, cause: string): void {
    const target = state === "active" || state === "ducked" ? "playing" : "paused";
    if (target === "playing") this.#player.setLevel(level);
    this.#target = target;
    // A player that cannot pause still plays, and is only muted.
    if (target === "playing" && (this.#hasPaused || this.#observed !== "playing")) this.#order("playing");
    if (target === "paused" && this.#observed === "playing") this.#order("paused");
    this.#hasPaused = target === "paused" && (this.#hasPaused || this.#observed === "playing");
    // Silence comes first.
    if (target === "paused") this.#player.setLevel(0);
    if (state !== this.#state || level !== this.#level) this.#listener.onState(state, level, cause);
    this.#state = state;
    this.#level = level;
  }
}
