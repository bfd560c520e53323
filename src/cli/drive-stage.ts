import type { SessionAnswer } from "../client/answers.ts";
import type { Client } from "../client/client.ts";
import { ClientError } from "../client/client-error.ts";
import { delay } from "../client/delay.ts";
import type { EventStream } from "../client/event-stream.ts";
import { type MessageText, MessageTexts } from "../client/message-texts.ts";
import type { ServerEvent, ServerEventOf } from "../client/server-event.ts";
import type { Decision } from "../protocol/decision.ts";
import { type ConnectionId, type FloorId, floorOfUser } from "../protocol/ids.ts";
import type { Language } from "./language.ts";

export type Bilingual = Readonly<Record<Language, string>>;

/** An expectation of a scene, and whether it holds. */
export interface SceneCheck {
  text: string;
  isMet: boolean;
}

/** The scene could not be completed. */
export class SceneFault extends Error {}

/** A sentence that has reached an agent. */
export interface RoutedSentence {
  /** The session's id. */
  id: string;
  decision: Decision | undefined;
  agentId: string | undefined;
}

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
  readonly client: Client;
  readonly userId: string;
  readonly floorId: FloorId;
  /** The floor's events, in order. */
  readonly floor: ServerEvent[] = [];
  /** The events that the user's connection received: those of the sessions, including texts. */
  readonly received: ServerEvent[] = [];
  readonly checks: SceneCheck[] = [];
  readonly #options: StageOptions;
  readonly #streams: EventStream[];
  readonly #texts = new MessageTexts();
  /** The newest message of each session's agent. */
  readonly #said = new Map<string, MessageText>();
  readonly #watchers = new Set<() => void>();
  /** The ids of the sessions of the scene. */
  readonly #started: string[] = [];
  #connectionId = "";
  #fault: unknown;

  private constructor(options: StageOptions) {
    this.#options = options;
    this.client = options.client;
    this.userId = options.userId;
    this.floorId = floorOfUser(options.userId);
    const connection = options.client.openConnection({ userId: options.userId });
    const floor = options.client.openFloor(this.floorId);
    this.#streams = [connection, floor];
    void this.#follow(connection, (event) => this.#receive(event));
    void this.#follow(floor, (event) => this.floor.push(event));
  }

  /** @throws SceneFault on a timeout, or the error that prevents the streams from opening */
  static async open(options: StageOptions): Promise<Stage> {
    const stage = new Stage(options);
    try {
      await stage.until("the connection to be made", () => stage.#connectionId !== "");
    } catch (error) {
      await stage.close();
      throw error;
    }
    return stage;
  }

  /** Create a session of this agent that takes the floor at once. @throws ClientError when it is refused */
  async start(agentId: string): Promise<SessionAnswer> {
    const { userId } = this;
    const { language } = this.#options;
    const connectionId = this.#connectionId;
    const wanted = { agentId, userId, connectionId, locale: language, activate: true };
    const answer = await this.client.createSession(wanted, this.#abortable);
    this.#started.push(answer.session.id);
    return answer;
  }

  /** Say a sentence that names no agent. @throws ClientError when the agent that hears it is refused */
  async sayUnnamed(words: Bilingual): Promise<RoutedSentence> {
    const { userId } = this;
    const said = { userId, content: this.word(words), locale: this.#options.language };
    const { sessionId, decision, routed } = await this.client.send(
      { type: "chat", sessionId: null, connectionId: this.#connectionId as ConnectionId, ...said },
      this.#abortable,
    );
    this.#started.push(sessionId!);
    return { id: sessionId!, decision, agentId: routed?.agent };
  }

  /** Say a sentence that must be refused. @returns who would have heard it, and why it is refused, if it is */
  async sayInVain(words: Bilingual): Promise<Omit<RoutedSentence, "id">> {
    try {
      return await this.sayUnnamed(words);
    } catch (error) {
      if (!(error instanceof ClientError && error.facts.decision)) throw error;
      const { decision, routed } = error.facts;
      return { decision, agentId: routed?.agent };
    }
  }

  /** The words in the language of the drive. */
  word(words: Bilingual): string {
    return words[this.#options.language];
  }

  async say(sessionId: string, content: string): Promise<void> {
    await this.client.send({ type: "chat", sessionId, content }, this.#abortable);
  }

  /** Send a message and wait for the complete reply. */
  async sendAndWait(sessionId: string, content: string): Promise<string> {
    const ended = this.#count("complete", sessionId);
    await this.say(sessionId, content);
    return this.untilAnswered(sessionId, ended + 1);
  }

  /** Wait for the end of the session's first turns. @returns the text of the last */
  async untilAnswered(sessionId: string, turns = 1): Promise<string> {
    await this.until("the answer", () => this.#count("complete", sessionId) >= turns);
    return this.messageOf(sessionId)?.text ?? "";
  }

  /** The newest message of the session's agent, as far as it was received. */
  messageOf(sessionId: string): MessageText | undefined {
    return this.#said.get(sessionId);
  }

  /** Wait until the session's agent has sent this many further deltas. */
  async untilDeltas(sessionId: string, pieces: number): Promise<void> {
    const before = this.#count("delta", sessionId);
    await this.until(`${pieces} pieces of text`, () => this.#count("delta", sessionId) >= before + pieces);
  }

  /** The session's transitions, with their indexes among the floor's events. */
  transitionsOf(sessionId: string): { index: number; data: ServerEventOf<"session_transition">["data"] }[] {
    return this.floor.flatMap((event, index) =>
      event.type === "session_transition" && event.sessionId === sessionId ? [{ index, data: event.data }] : [],
    );
  }

  /** Let this many ms pass. */
  async pass(ms: number): Promise<void> {
    const { signal } = this.#options;
    await delay(ms, signal);
    signal?.throwIfAborted();
  }

  /** Wait for a condition. @throws SceneFault on a timeout, the error of a failed stream, or the signal's reason */
  until(what: string, isSo: () => boolean): Promise<void> {
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

  check(text: string | Bilingual, isMet: boolean): void {
    this.checks.push({ text: typeof text === "string" ? text : this.word(text), isMet });
  }

  /** Stop all sessions of the scene on the server, and close the streams. */
  async close(): Promise<void> {
    try {
      await this.client.stopAll(this.floorId);
      // A session that gave the floor up has no place on it, so that the floor does not stop it.
      for (const id of this.#started) await this.client.stopSession(id);
      const isEnded = () => activeIn(this.floor).size === 0 && activeIn(this.received).size === 0;
      if (!this.#fault && !this.#options.signal?.aborted) await this.until("the scene's end", isEnded);
    } finally {
      for (const stream of this.#streams) stream.close();
    }
  }

  /** The maximum number of sessions that were active at the same time. */
  get mostActive(): number {
    return this.floor.reduce((most, _, index) => Math.max(most, activeIn(this.floor.slice(0, index + 1)).size), 0);
  }

  get #abortable(): { signal: AbortSignal | undefined } {
    return { signal: this.#options.signal };
  }

  #count(type: ServerEvent["type"], sessionId: string): number {
    return this.received.filter((event) => event.type === type && event.sessionId === sessionId).length;
  }

  #receive(event: ServerEvent): void {
    this.received.push(event);
    if (event.type === "connected") this.#connectionId = event.data.connectionId;
    const message = this.#texts.take(event);
    if (message?.agent) this.#said.set(message.sessionId, message);
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
