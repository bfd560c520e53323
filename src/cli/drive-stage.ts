import type { Client } from "../client/client.ts";
import { ClientError } from "../client/client-error.ts";
import { delay } from "../client/delay.ts";
import type { EventStream } from "../client/event-stream.ts";
import { arbiterState, type FollowedFloor, floorAfter, UNUSED_FLOOR } from "../client/floor-after.ts";
import { keepLease, type Lease } from "../client/live/lease.ts";
import { type MessageText, MessageTexts } from "../client/message-texts.ts";
import type { LoggedServerEvent, ServerEvent } from "../client/server-event.ts";
import {
  type Comparison,
  checkAnswer,
  checkFloor,
  checkPlay,
  type FloorFacts,
  type StepAnswer,
} from "../policy/expectations.ts";
import { ACTIONS, type Script, type Step, type StepExpectation } from "../policy/script.ts";
import { Tally } from "../policy/tally.ts";
import { type ConnectionId, type FloorId, floorOfUser } from "../protocol/ids.ts";
import { type LocalText, textIn } from "../protocol/locale.ts";
import type { Language } from "./language.ts";

/** The scene could not be completed. */
export class SceneFault extends Error {}

export interface StageOptions {
  client: Client;
  userId: string;
  language: Language;
  /** How long to wait for each expected event before the scene fails, in ms. */
  patienceMs: number;
  signal?: AbortSignal | undefined;
}

/** The environment of one scene: its own user, the user's floor, and all events of both. */
export class Stage {
  /** The floor's events, in order. */
  readonly floor: ServerEvent[] = [];
  /** The events that the user's connection received: those of the sessions, including texts. */
  readonly received: ServerEvent[] = [];
  /** What the scene shows, in words. */
  readonly checks: Comparison[] = [];
  readonly #options: StageOptions;
  readonly #floorId: FloorId;
  readonly #streams: EventStream[];
  readonly #watchers = new Set<() => void>();
  /** By name: the newest session. */
  readonly #named = new Map<string, string>();
  /** By session: how many messages it was sent. */
  readonly #turns = new Map<string, number>();
  readonly #leases: Lease[] = [];
  #connectionId = "" as ConnectionId;
  #fault: unknown;

  private constructor(options: StageOptions) {
    const { client, userId } = options;
    this.#options = options;
    this.#floorId = floorOfUser(userId);
    const connection = client.openConnection({ userId });
    const floor = client.openFloor(this.#floorId);
    this.#streams = [connection, floor];
    void this.#follow(connection, (event) => {
      this.received.push(event);
      if (event.type === "connected") this.#connectionId = event.data.connectionId as ConnectionId;
    });
    void this.#follow(floor, (event) => this.floor.push(event));
  }

  /** @throws SceneFault on a timeout, or the error that prevents the streams from opening */
  static async open(options: StageOptions): Promise<Stage> {
    const stage = new Stage(options);
    try {
      await stage.#until("the connection to be made", () => stage.#connectionId !== "");
    } catch (error) {
      await stage.close();
      throw error;
    }
    return stage;
  }

  /** Play a script's steps as requests, in real time, and compare what it expects. @throws SceneFault, ClientError */
  async play({ steps, expect }: Script): Promise<void> {
    for (const step of steps) await this.#playStep(step);
    const tally = new Tally();
    for (const event of this.floor) tally.add(event as LoggedServerEvent, Date.parse(event.timestamp));
    tally.end(Date.parse(this.floor.at(-1)!.timestamp));
    for (const expected of expect) this.#note(expected.shows, checkPlay(expected, tally, 0));
  }

  async #playStep(step: Step): Promise<void> {
    const { after, expect = {}, shows } = step;
    if (after !== undefined) await this.#pass(after);
    const from = this.floor.length;
    const answer = await this.#act(step);
    const checks = checkAnswer(expect, answer, this.#options.language);
    // No session's log contains a refusal.
    const isLogged = (event: ServerEvent) => event.type === "arbitration" && event.data.outcome === "rejected";
    if (answer.decision?.outcome === "rejected")
      await this.#until("the refusal on the floor's stream", () => this.floor.slice(from).some(isLogged));
    await this.#untilSo(expect, from);
    this.#note(shows, checks);
  }

  /** Wait until the floor has been, since this event or now, as the script expects. */
  async #untilSo(expect: StepExpectation, from: number): Promise<void> {
    const faultsAt = (end: number) => checkFloor(expect, this.#factsAt(end)).filter(({ fault }) => fault !== undefined);
    const ends = () => this.floor.map((_, index) => index + 1).slice(Math.min(from, this.floor.length - 1));
    const wanted = checkFloor(expect, this.#factsAt(from)).map(({ text }) => text);
    await this.#until(wanted.join("; "), () => wanted.length === 0 || ends().some((end) => faultsAt(end).length === 0));
  }

  /** The floor after this many events. */
  #factsAt(end: number): FloorFacts {
    const events = this.floor.slice(0, end);
    const floor = events.reduce<FollowedFloor>(floorAfter, UNUSED_FLOOR);
    const { holder, ducked, paused, queued } = floor;
    const moveOf = (id: string) => {
      const last = events.findLast((event) => event.type === "session_transition" && event.sessionId === id);
      return last?.type === "session_transition" ? last.data : undefined;
    };
    const heard = [...(holder === undefined ? [] : [holder]), ...ducked];
    return {
      state: arbiterState(floor),
      sessions: [...heard, ...paused, ...queued].length,
      sounding: heard.map((name) => ({ name, level: moveOf(name)?.level })),
      idOf: (name) => {
        const id = this.#named.get(name);
        return id === undefined || moveOf(id)?.to === "archived" ? undefined : id;
      },
      stateOf: (id) => moveOf(id)?.to,
    };
  }

  /** Note what is shown; without words for it only what is not so. */
  #note(shows: LocalText | undefined, checks: readonly Comparison[]): void {
    const broken = checks.filter(({ fault }) => fault !== undefined);
    if (shows === undefined) this.checks.push(...broken);
    else
      this.checks.push({ text: this.#word(shows), fault: broken.map(({ text, fault }) => `${text}, but ${fault}`)[0] });
  }

  async #act(step: Step): Promise<StepAnswer> {
    const { client, signal } = this.#options;
    const { asks, hears, answers, ends, what_if: agentId } = step;
    if (hears !== undefined) return this.#say(this.#word(hears), step.as);
    if (asks !== undefined) return this.#start(asks, step.as);
    if (agentId !== undefined) return client.whatIf(this.#floorId, agentId, { signal });
    if (ends !== undefined) await client.archiveSession(this.#sessionOf(ends));
    if (answers !== undefined) await this.#until("the answer", () => !this.#hasTurn(this.#sessionOf(answers)));
    const other = ACTIONS.find((each) => step[each] !== undefined && each !== "ends" && each !== "answers");
    if (other) throw new SceneFault(`a drive does not play "${other}", which interlock simulate does`);
    return {};
  }

  /** Say a sentence that names no agent. */
  #say(content: string, name: string | undefined): Promise<StepAnswer> {
    const { client, userId, language: locale, signal } = this.#options;
    const connectionId = this.#connectionId;
    const message = { type: "chat", sessionId: null, connectionId, userId, content, locale } as const;
    return answered(async () => {
      const answer = await client.send(message, { signal });
      const id = answer.sessionId!;
      this.#named.set(name ?? answer.routed!.agent!, id);
      this.#turns.set(id, (this.#turns.get(id) ?? 0) + 1);
      return answer;
    });
  }

  /** Create a session of this agent that asks for the floor, and play it like an external participant. */
  #start(agentId: string, name = agentId): Promise<StepAnswer> {
    const { client, userId, language: locale, signal } = this.#options;
    const wanted = { agentId, userId, connectionId: this.#connectionId, locale, activate: true };
    return answered(async () => {
      const answer = await client.createSession(wanted, { signal });
      const lease = keepLease(client, answer.session.id, true);
      lease.note(answer.session);
      this.#leases.push(lease);
      this.#named.set(name, answer.session.id);
      return answer;
    });
  }

  #sessionOf(name: string): string {
    const id = this.#named.get(name);
    if (id === undefined) throw new SceneFault(`there is no session ${name}`);
    return id;
  }

  #hasTurn(id: string): boolean {
    return (this.#turns.get(id) ?? 0) > this.#count("complete", id);
  }

  /** Let at least so much time pass, and what is in front say something more, if it has a turn. */
  async #pass(ms: number): Promise<void> {
    const { signal } = this.#options;
    const front = this.floor.reduce<FollowedFloor>(floorAfter, UNUSED_FLOOR).holder ?? "";
    const before = this.#count("delta", front);
    await delay(ms, signal);
    signal?.throwIfAborted();
    await this.#until("a piece of text", () => this.#count("delta", front) > before || !this.#hasTurn(front));
  }

  #word(words: LocalText): string {
    return textIn(words, this.#options.language);
  }

  /** Wait for a condition. @throws SceneFault on a timeout, the error of a failed stream, or the signal's reason */
  #until(what: string, isSo: () => boolean): Promise<void> {
    const { patienceMs, signal } = this.#options;
    return new Promise((resolve, reject) => {
      const finish = (end: () => void) => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", look);
        this.#watchers.delete(look);
        end();
      };
      const look = () => {
        if (signal?.aborted) finish(() => reject(signal.reason));
        else if (this.#fault) finish(() => reject(this.#fault));
        else if (isSo()) finish(resolve);
      };
      const timer = setTimeout(
        () => finish(() => reject(new SceneFault(`waited ${patienceMs / 1_000} s for ${what}`))),
        patienceMs,
      );
      signal?.addEventListener("abort", look);
      this.#watchers.add(look);
      look();
    });
  }

  /** Stop all sessions of the scene on the server, and close the streams. */
  async close(): Promise<void> {
    const { client, signal } = this.#options;
    try {
      for (const lease of this.#leases) lease.stop();
      await client.stopAll(this.#floorId);
      // A session that gave the floor up has no place on it, so that the floor does not stop it.
      for (const id of this.#named.values()) await client.stopSession(id);
      const isEnded = () => activeIn(this.floor).size === 0 && activeIn(this.received).size === 0;
      if (!this.#fault && !signal?.aborted) await this.#until("the scene's end", isEnded);
    } finally {
      for (const stream of this.#streams) stream.close();
    }
  }

  /** Note what every scene shows. */
  conclude(): void {
    const mostActive = Math.max(...this.floor.map((_, index) => activeIn(this.floor.slice(0, index + 1)).size));
    const isSo = (text: LocalText, isMet: boolean) =>
      void this.checks.push({ text: this.#word(text), ...(!isMet && { fault: "" }) });
    const resumed = this.received.filter(({ type, data }) => type === "session_transition" && data.event === "resume");
    const goesOn = resumed.every(({ sessionId }) => isContinued(this.received, sessionId!));
    const on = {
      en: "what is paused says nothing, and goes on where it stopped",
      zh: "被暂停的不出声，之后从停下的地方接着来",
    };
    if (resumed.some(({ sessionId }) => this.#turns.has(sessionId!))) isSo(on, goesOn);
    isSo({ en: "at no time were two sessions active", zh: "任何时刻都没有两个会话同时激活" }, mostActive === 1);
  }

  #count(type: ServerEvent["type"], sessionId: string): number {
    return this.received.filter((event) => event.type === type && event.sessionId === sessionId).length;
  }

  async #follow(stream: EventStream, receive: (event: ServerEvent) => void): Promise<void> {
    try {
      for await (const event of stream) {
        receive(event);
        for (const look of [...this.#watchers]) look();
      }
    } catch (error) {
      this.#fault = error;
      for (const look of [...this.#watchers]) look();
    }
  }
}

/** The answer of a request, also of one that the floor refuses. */
async function answered(request: () => Promise<StepAnswer>): Promise<StepAnswer> {
  try {
    return await request();
  } catch (error) {
    if (error instanceof ClientError && error.facts.decision) return error.facts;
    throw error;
  }
}

/** The ids of the sessions that are active after these events. */
function activeIn(events: readonly ServerEvent[]): Set<string> {
  const active = new Set<string>();
  for (const event of events) {
    if (event.type !== "session_transition") continue;
    if (event.data.to.startsWith("active")) active.add(event.sessionId!);
    else active.delete(event.sessionId!);
  }
  return active;
}

/** Whether the session said nothing while it was paused, and then went on in the same message. */
function isContinued(received: readonly ServerEvent[], sessionId: string): boolean {
  const texts = new MessageTexts();
  let state = "";
  let before: MessageText | undefined;
  let said: MessageText | undefined;
  for (const event of received.filter((each) => each.sessionId === sessionId)) {
    if (event.type === "session_transition") state = event.data.to;
    if (event.type === "session_transition" && event.data.event === "preempt") before = said;
    if (event.type === "delta" && state === "paused") return false;
    const text = texts.take(event);
    if (text?.agent) said = text;
  }
  if (before === undefined || before.messageId !== said?.messageId) return false;
  return said.text.startsWith(before.text) && said.text.length > before.text.length;
}
