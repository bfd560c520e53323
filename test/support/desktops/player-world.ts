/** A floor, a player, its user and their machine in one thread. Every message between them waits to be delivered. */

import {
  type KnownState,
  type Left,
  newPlayerMachine,
  type Playback,
  type PlayerAction,
  type PlayerEvent,
  type PlayerMachine,
  type PlayerRequest,
  stepPlayer,
} from "../../../src/cli/playing/player-machine.ts";

/** Who else is on the floor: nobody, a prompt that ducks, a call in which others wait, or one that refuses them. */
export type Others = "nobody" | "prompt" | "call" | "refusing";

interface FloorSession {
  id: string;
  state: KnownState["state"];
  /** The floor brings it back. */
  isWaiting: boolean;
  isLapsed: boolean;
}

interface Asked {
  request: PlayerRequest;
  sessionId: string | undefined;
  /** It has been carried out already. */
  answer?: PlayerEvent;
}

export class PlayerWorld {
  machine: PlayerMachine = newPlayerMachine();
  /** What the player does, whatever it has reported. */
  playback: Exclude<Playback, "gone"> = "stopped";
  session: FloorSession | undefined;
  others: Others = "nobody";
  /** Every action with the event that caused it, and the machines around it. */
  readonly steps: {
    before: PlayerMachine;
    event: PlayerEvent;
    after: PlayerMachine;
    actions: readonly PlayerAction[];
  }[] = [];
  /** The sessions that went on as others. */
  readonly #goesOnAs = new Map<string, string>();
  #requests: Asked[] = [];
  #answers: PlayerEvent[] = [];
  #stream: PlayerEvent[] = [];
  #orders: ("playing" | "paused")[] = [];
  #reports: Playback[] = [];
  #left: Left | undefined;
  #isFaulty = false;
  #count = 0;
  #seq = 0;
  #hasRetry = false;

  /** Let the oldest message of one kind arrive. @returns whether there was one */
  deliver(kind: "request" | "answer" | "stream" | "order" | "report"): boolean {
    if (kind === "request") return this.#serve(this.#requests.shift());
    if (kind === "order") return this.#obey(this.#orders.shift());
    if (kind === "report") return this.#report(this.#reports.shift());
    return this.#hear((kind === "answer" ? this.#answers : this.#stream).shift());
  }

  /** The request is carried out, and its answer is lost: it is sent again. */
  loseAnswer(): void {
    const [asked] = this.#requests;
    if (!asked || this.#isFaulty) return;
    this.deliver("request");
    const answer = this.#answers.pop();
    // A request for a session is repeated with its key, and gets its first answer.
    this.#requests.unshift(asked.request === "create" && answer ? { ...asked, answer } : asked);
    this.step({ type: "unanswered" });
  }

  /** What the user does in the player. */
  press(playback: "playing" | "paused" | "stopped"): void {
    this.#become(playback);
  }

  fault(isFaulty: boolean): void {
    this.#isFaulty = isFaulty;
  }

  setOthers(others: Others): void {
    this.others = others;
    const { session } = this;
    if (session && (isHeard(session) || session.isWaiting)) this.#place(session);
  }

  lapse(): void {
    const { session } = this;
    if (!session || !(isHeard(session) || session.isWaiting)) return;
    session.isWaiting = false;
    session.isLapsed = true;
    this.#tell(session.state === "created" ? "created" : "paused");
  }

  /** Somebody else moves the session to another floor with the same others; not if it would be refused there. */
  move(): void {
    const { session } = this;
    if (!session || session.state === "archived" || this.others === "refusing") return;
    this.#count += 1;
    const to = `s${this.#count}`;
    this.#goesOnAs.set(session.id, to);
    if (session.id === this.machine.sessionId) this.#stream.push({ type: "moved", from: session.id, to });
    this.session = { id: to, state: "created", isWaiting: true, isLapsed: false };
    this.#place(this.session);
  }

  /** Somebody else ends the session. */
  archive(): void {
    if (this.session && this.session.state !== "archived") this.#tell("archived");
  }

  /** The store is lost. */
  lose(): void {
    if (this.machine.sessionId !== undefined) this.#stream = [{ type: "lost" }];
    this.session = undefined;
  }

  /** The bridge is killed, and another one starts. */
  restart(): void {
    // The lease ends a session that no bridge knows.
    if (this.session?.id !== this.#newestOf(this.#left?.sessionId)) this.session = undefined;
    this.#requests = [];
    this.#answers = [];
    this.#stream = [];
    this.#reports = [];
    this.#hasRetry = false;
    this.machine = newPlayerMachine(this.#left);
    if (this.#left?.sessionId !== undefined) this.#load(this.#left.sessionId);
    this.#report(this.playback);
  }

  wait(timer: "order is old" | "try again" | "stayed stopped"): void {
    if (timer === "try again" && !this.#hasRetry) return;
    if (timer === "try again") this.#hasRetry = false;
    this.step({ type: timer });
  }

  /** Let everything arrive, and every timer run out, until nothing happens any more. */
  settle(): void {
    this.fault(false);
    this.#comeToRest();
    // The lease ends a session that the bridge does not know.
    if (this.session?.id !== this.machine.sessionId) this.session = undefined;
  }

  #comeToRest(): void {
    for (let rounds = 0; rounds < 200; rounds += 1) {
      const kinds = ["request", "answer", "stream", "order", "report"] as const;
      if (kinds.map((kind) => this.deliver(kind)).some(Boolean)) continue;
      const before = this.steps.length;
      if (this.machine.order) this.wait("order is old");
      if (this.#hasRetry) this.wait("try again");
      if (this.playback === "stopped" && !/away|over/.test(this.machine.phase)) this.wait("stayed stopped");
      if (this.steps.length === before) return;
    }
    throw new Error("it does not come to rest");
  }

  step(event: PlayerEvent): void {
    const before = this.machine;
    const [after, actions] = stepPlayer(before, event);
    this.machine = after;
    this.steps.push({ before, event, after, actions });
    const { sessionId, isPausedHere } = after;
    this.#left = sessionId === undefined && !isPausedHere ? undefined : { sessionId, isPausedHere };
    for (const action of actions) {
      if (action.type === "order") this.#orders.push(action.to);
      else if (action.type === "request") this.#requests.push(action);
      else if (action.type === "retry") this.#hasRetry = true;
      else if (action.type === "follow") this.#load(action.sessionId);
    }
  }

  #serve(asked: Asked | undefined): boolean {
    if (!asked) return false;
    const answer = () => asked.answer ?? this.#answer(asked.request, asked.sessionId);
    this.#answers.push(this.#isFaulty ? { type: "faulted" } : answer());
    return true;
  }

  #answer(request: PlayerRequest, sessionId: string | undefined): PlayerEvent {
    const isNew = request === "create";
    if (isNew && this.others === "refusing") return { type: "refused", say: "no" };
    if (isNew) {
      this.#count += 1;
      this.session = { id: `s${this.#count}`, state: "created", isWaiting: true, isLapsed: false };
      this.#place(this.session);
    }
    const { session } = this;
    const to = sessionId !== undefined && this.#goesOnAs.get(sessionId);
    if (to) return { type: "moved", from: sessionId, to, isAnswer: true };
    if (!session || (!isNew && session.id !== sessionId) || session.state === "archived") return { type: "vanished" };
    if (request === "archive") this.#tell("archived");
    else if (request === "pause") {
      session.isWaiting = false;
      session.isLapsed = false;
      this.#tell("paused");
    } else if (!isNew && !isHeard(session)) {
      if (this.others === "refusing") return { type: "refused", say: "no" };
      // The log has the decision too.
      this.#seq += 1;
      this.#place(session);
    }
    return { type: "answered", sessionId: session.id, known: this.#known(session), say: "because" };
  }

  /** The floor's decision for a session that wants to be heard. */
  #place(session: FloorSession): void {
    const audible = this.others === "nobody" ? "active" : "ducked";
    const isHeldBack = this.others === "call" || this.others === "refusing";
    session.isWaiting = isHeldBack;
    session.isLapsed = false;
    const held = session.state === "created" ? "created" : "paused";
    const next = isHeldBack ? held : audible;
    if (next !== session.state) this.#tell(next);
  }

  #tell(state: FloorSession["state"]): void {
    const session = this.session!;
    session.state = state;
    this.#seq += 1;
    if (session.id === this.machine.sessionId) this.#stream.push({ type: "known", known: this.#known(session) });
  }

  /** A bridge that begins to follow a session reads its state, and from then on its transitions. */
  #load(sessionId: string): void {
    this.#stream = [];
    const { session } = this;
    const to = this.#goesOnAs.get(sessionId);
    if (to !== undefined) {
      this.#stream.push({ type: "moved", from: sessionId, to });
      return;
    }
    const isThere = session?.id === sessionId;
    this.#stream.push(isThere ? { type: "known", known: this.#known(session) } : { type: "lost" });
  }

  /** The session in which one goes on, at the end of all its moves. */
  #newestOf(sessionId: string | undefined): string | undefined {
    const next = sessionId !== undefined && this.#goesOnAs.get(sessionId);
    return next ? this.#newestOf(next) : sessionId;
  }

  #known({ state, isWaiting, isLapsed }: FloorSession): KnownState {
    return { epoch: "e", seq: this.#seq, state, level: state === "ducked" ? -14 : 0, cause: "", isWaiting, isLapsed };
  }

  #obey(order: "playing" | "paused" | undefined): boolean {
    if (!order) return false;
    if (order === "playing" || this.playback === "playing") this.#become(order);
    return true;
  }

  #become(playback: "playing" | "paused" | "stopped"): void {
    if (playback === this.playback) return;
    this.playback = playback;
    this.#reports.push(playback);
  }

  #report(playback: Playback | undefined): boolean {
    if (playback) this.step({ type: "reported", playback });
    return playback !== undefined;
  }

  #hear(event: PlayerEvent | undefined): boolean {
    if (event) this.step(event);
    return event !== undefined;
  }
}

const isHeard = ({ state }: FloorSession): boolean => state === "active" || state === "ducked";

/** Whether the world's session is heard. */
export const isHeardIn = ({ session }: PlayerWorld): boolean => session !== undefined && isHeard(session);
