import type { SessionAnswer } from "../client/answers.ts";
import { delay } from "../client/backoff.ts";
import type { Client } from "../client/client.ts";
import { ClientError } from "../client/client-error.ts";
import type { EventStream } from "../client/event-stream.ts";
import { type MessageText, MessageTexts } from "../client/message-texts.ts";
import type { ServerEvent, ServerEventOf } from "../client/server-event.ts";
import type { Decision } from "../protocol/decision.ts";
import { type FloorId, floorOf, type SessionId } from "../protocol/ids.ts";

/** What a scene expects, and whether it was so. */
export interface Check {
  text: string;
  holds: boolean;
}

/** A scene could not be played to its end. */
export class SceneFault extends Error {}

export interface StageOptions {
  client: Client;
  userId: string;
  /** What is waited for comes within so many ms, or the scene breaks off. */
  patienceMs: number;
  signal?: AbortSignal | undefined;
}

/** Where one scene is played: a user of its own, its floor, and everything that is heard of both. */
export class Stage {
  readonly client: Client;
  readonly userId: string;
  readonly floorId: FloorId;
  /** What happened on the floor, in its order. */
  readonly floor: ServerEvent[] = [];
  /** What the user's connection was told: the sessions' events, with their texts. */
  readonly heard: ServerEvent[] = [];
  readonly checks: Check[] = [];
  readonly #options: StageOptions;
  readonly #streams: EventStream[];
  readonly #texts = new MessageTexts();
  /** What each session's agent said last. */
  readonly #said = new Map<string, MessageText>();
  readonly #watchers = new Set<() => void>();
  #connectionId = "";
  #fault: unknown;

  private constructor(options: StageOptions) {
    this.#options = options;
    this.client = options.client;
    this.userId = options.userId;
    this.floorId = floorOf("" as SessionId, options.userId, undefined);
    const connection = options.client.openConnection({ userId: options.userId });
    const floor = options.client.openFloor(this.floorId);
    this.#streams = [connection, floor];
    void this.#follow(connection, (event) => this.#hear(event));
    void this.#follow(floor, (event) => this.floor.push(event));
  }

  /** @throws SceneFault, or what keeps the streams from opening */
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

  /** A session of this agent, which has the floor at once; a refusal throws. */
  start(agentId: string): Promise<SessionAnswer> {
    const { userId } = this;
    const connectionId = this.#connectionId;
    return this.client.createSession({ agentId, userId, connectionId, activate: true }, this.#abortable);
  }

  /** The refusal of a session that must not have the floor; undefined if it got it. */
  async refusalOf(agentId: string): Promise<Decision | undefined> {
    try {
      await this.start(agentId);
      return undefined;
    } catch (error) {
      if (error instanceof ClientError && error.facts.decision) return error.facts.decision;
      throw error;
    }
  }

  async say(sessionId: string, content: string): Promise<void> {
    await this.client.send({ type: "chat", sessionId, content }, this.#abortable);
  }

  /** Say it, and hear the answer to its end. */
  async ask(sessionId: string, content: string): Promise<string> {
    const ended = this.#count("complete", sessionId);
    await this.say(sessionId, content);
    await this.until(`the answer to “${content}”`, () => this.#count("complete", sessionId) > ended);
    return this.messageOf(sessionId)?.text ?? "";
  }

  /** The newest message of the session's agent, as far as it has got. */
  messageOf(sessionId: string): MessageText | undefined {
    return this.#said.get(sessionId);
  }

  /** Until the session's agent has said so many pieces more. */
  async hear(sessionId: string, pieces: number): Promise<void> {
    const before = this.#count("delta", sessionId);
    await this.until(`${pieces} pieces of text`, () => this.#count("delta", sessionId) >= before + pieces);
  }

  /** The session's transitions, with their places among the floor's events. */
  transitionsOf(sessionId: string): { index: number; data: ServerEventOf<"session_transition">["data"] }[] {
    return this.floor.flatMap((event, index) =>
      event.type === "session_transition" && event.sessionId === sessionId ? [{ index, data: event.data }] : [],
    );
  }

  /** Life goes on for so many ms. */
  async pass(ms: number): Promise<void> {
    const { signal } = this.#options;
    await delay(ms, signal);
    signal?.throwIfAborted();
  }

  /** @throws SceneFault when it takes too long or the streams are refused; the signal's reason when it is aborted */
  until(what: string, isSo: () => boolean): Promise<void> {
    const { patienceMs, signal } = this.#options;
    return new Promise((resolve, reject) => {
      const finish = (settle: () => void) => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", look);
        this.#watchers.delete(look);
        settle();
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

  check(text: string, holds: boolean): void {
    this.checks.push({ text, holds });
  }

  /** Leaves nothing running on the server: no music plays on for nobody. */
  async close(): Promise<void> {
    try {
      await this.client.stopAll(this.floorId);
      const isEnded = () => activeIn(this.floor).size === 0 && activeIn(this.heard).size === 0;
      if (!this.#fault && !this.#options.signal?.aborted) await this.until("the scene's end", isEnded);
    } finally {
      for (const stream of this.#streams) stream.close();
    }
  }

  /** How many sessions were active together, at the worst moment. */
  get mostActive(): number {
    return this.floor.reduce((most, _, index) => Math.max(most, activeIn(this.floor.slice(0, index + 1)).size), 0);
  }

  get #abortable(): { signal: AbortSignal | undefined } {
    return { signal: this.#options.signal };
  }

  #count(type: ServerEvent["type"], sessionId: string): number {
    return this.heard.filter((event) => event.type === type && event.sessionId === sessionId).length;
  }

  #hear(event: ServerEvent): void {
    this.heard.push(event);
    if (event.type === "connected") this.#connectionId = event.data.connectionId;
    const message = this.#texts.take(event);
    if (message?.agent) this.#said.set(message.sessionId, message);
  }

  async #follow(stream: EventStream, take: (event: ServerEvent) => void): Promise<void> {
    try {
      for await (const event of stream) {
        take(event);
        for (const look of [...this.#watchers]) look();
      }
    } catch (error) {
      this.#fault = error;
      for (const look of [...this.#watchers]) look();
    }
  }
}

/** Who is active after these events. */
function activeIn(events: readonly ServerEvent[]): Set<string> {
  const active = new Set<string>();
  for (const event of events) {
    if (event.type !== "session_transition") continue;
    if (event.data.to.startsWith("active")) active.add(event.sessionId!);
    else active.delete(event.sessionId!);
  }
  return active;
}
