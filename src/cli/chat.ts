import { randomUUID } from "node:crypto";
import type { MessageAnswer } from "../client/answers.ts";
import type { Client, OutgoingMessage } from "../client/client.ts";
import { ClientError } from "../client/client-error.ts";
import type { PendingInteraction } from "../client/conversation-reader.ts";
import type { EventStream, StreamStatus } from "../client/event-stream.ts";
import { sessionAfter } from "../client/floor-after.ts";
import type { ServerEvent, ServerEventOf } from "../client/server-event.ts";
import type { Message } from "../protocol/message.ts";
import type { AgentInfo, Session } from "../protocol/session.ts";
import { answerTo, questionLines } from "./chat-answers.ts";
import type { ChatScreen } from "./chat-screen.ts";
import { CHAT, type ChatWords } from "./chat-words.ts";
import type { Language } from "./language.ts";
import { AGENT_MARK, type NarrationPiece, Narrator, USER_MARK } from "./narration.ts";
import type { Style } from "./paint.ts";
import { cutToWidth } from "./text-width.ts";

export interface ChatSetting {
  client: Client;
  userId: string;
  /** The agent of new sessions. Default: by the catalogue's `routing` the one that each line is for, or its default. */
  agentId: string | undefined;
  screen: ChatScreen;
  language: Language;
  /** Runs a line that begins with `/`. Returns false to end the chat. */
  command: (chat: TerminalChat, line: string) => Promise<boolean>;
}

/** Messages that are shown of a session that is continued. */
const SHOWN_MESSAGES = 20;
/** Sessions of the user that are followed: those with the newest activity. */
const MAX_SESSIONS = 50;
/** Events of a floor's log that are read to find what a waiting session asks. */
const READ_EVENTS = 200;
/** The maximum number of columns of a tool's arguments or result. */
const TOOL_COLUMNS = 200;

/** A connection of the chat. It follows a limited number of sessions, so a chat may have several. */
interface Connection {
  readonly stream: EventStream;
  /** Resolves when the connection has its first id. */
  readonly connected: PromiseWithResolvers<void>;
  /** Empty before the first answer. */
  id: string;
}

/** One user's chat: its sessions, their events, and the typed lines. */
export class TerminalChat {
  readonly setting: ChatSetting;
  readonly sessions = new Map<string, Session>();
  /** The sessions that were begun here. */
  readonly made = new Set<string>();
  agents: readonly AgentInfo[] = [];
  /** The session that commands are about: the one that was chosen, or that the last message went to. */
  current: string | undefined;
  /** Whether something was refused or failed. */
  hasFailed = false;
  readonly #narrator: Narrator;
  readonly #questions = new Map<string, PendingInteraction>();
  /** Finished messages that were shown, or typed here. */
  readonly #shown = new Set<string>();
  readonly #runs = new Map<string, PromiseWithResolvers<void>>();
  readonly #signal: AbortSignal;
  /** The newest is the last one. */
  readonly #connections: Connection[] = [];
  /** The connection that each session's events arrive through, by the session's id. */
  readonly #connectionOf = new Map<string, Connection>();
  #isAway = false;
  /** Whether messages go to the agents that the catalogue's `routing` names, unless a session is chosen. */
  #isRouted = false;
  #isChosen = false;
  /** Settles when the message under way is answered: what happens to it is shown after that. */
  #answered: Promise<void> = Promise.resolve();
  readonly #over = Promise.withResolvers<void>();

  constructor(setting: ChatSetting, signal: AbortSignal) {
    this.setting = setting;
    this.#signal = signal;
    this.#narrator = new Narrator((agentId) => this.nameOf(agentId), setting.language);
  }

  get words(): ChatWords {
    return CHAT[this.setting.language];
  }

  /** Resolves when the chat cannot continue. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  /** Connect, and find the user's sessions. @throws ClientError, also if no node answers: a connection waits for one */
  async open(): Promise<void> {
    await this.setting.client.listSessions({ userId: this.setting.userId, pageSize: 1 });
    await this.#openConnection();
    const { routing = false } = await this.setting.client.listAgents();
    this.#isRouted = routing && this.setting.agentId === undefined;
    await this.find();
  }

  async #openConnection(): Promise<Connection> {
    const { client, userId } = this.setting;
    const stream = client.openConnection({
      userId,
      signal: this.#signal,
      onStatus: (status) => this.#noteStatus(status),
    });
    const connection = { stream, connected: Promise.withResolvers<void>(), id: "" };
    this.#connections.push(connection);
    this.#follow(connection).then(this.#over.resolve, this.#over.reject);
    await Promise.race([connection.connected.promise, this.over]);
    return connection;
  }

  /** Use the newest connection, or a further one if that follows as many sessions as it can. */
  async #withRoom<T>(use: (connection: Connection) => Promise<T>): Promise<T> {
    try {
      return await use(this.#connections.at(-1)!);
    } catch (error) {
      if (!(error instanceof ClientError && error.code === "too_many_bindings")) throw error;
      return use(await this.#openConnection());
    }
  }

  /** Follow the user's sessions, also those that other clients have begun. */
  async find(): Promise<void> {
    const { userId, client } = this.setting;
    const { sessions } = await client.listSessions({ userId, pageSize: MAX_SESSIONS });
    for (const { id } of sessions.toReversed()) if (!this.sessions.has(id)) await this.#bind(id);
  }

  close(): void {
    for (const { stream } of this.#connections) stream.close();
  }

  /** The session with the newest activity that messages may go to: of the chosen agent, if one is chosen. */
  latest(): Session | undefined {
    const { agentId } = this.setting;
    return [...this.sessions.values()]
      .filter((session) => agentId === undefined || session.agentId === agentId)
      .sort((one, other) => other.lastActivityAt - one.lastActivityAt)[0];
  }

  /** The session that messages go to; undefined: a new one, or the one that `routing` names. */
  get addressee(): string | undefined {
    return this.#isRouted && !this.#isChosen ? undefined : this.current;
  }

  /** Send messages to this session from now on, and show its last ones. */
  async choose(sessionId: string): Promise<void> {
    this.#isChosen = true;
    await this.goOn(sessionId);
  }

  /** Choose no session. @returns whether messages then go to the agents that `routing` names */
  chooseNone(): boolean {
    this.#isChosen = false;
    return this.#isRouted;
  }

  /** Show the last messages of a session, and what it asks. */
  async goOn(sessionId: string): Promise<void> {
    this.current = sessionId;
    await this.showMessages(sessionId);
    const question = this.#questions.get(sessionId);
    if (question) for (const line of questionLines(question, this.words)) this.say(line);
  }

  /** A new session, which messages go to from now on. */
  async create(agentId = this.setting.agentId): Promise<Session> {
    const { client, userId } = this.setting;
    const wanted = { userId, ...(agentId !== undefined && { agentId }) };
    const { session } = await this.#withRoom(async (connection) => {
      const made = await client.createSession({ ...wanted, connectionId: connection.id });
      this.#connectionOf.set(made.session.id, connection);
      return made;
    });
    this.#keep(session);
    this.made.add(session.id);
    this.current = session.id;
    this.#isChosen = true;
    return session;
  }

  /** What was typed: a command, an answer, or a message. @returns false to end the chat */
  async handle(line: string): Promise<boolean> {
    const text = line.trim();
    if (text === "") return true;
    try {
      if (text.startsWith("/")) return await this.setting.command(this, text);
      await this.#send(text);
    } catch (error) {
      this.#report(error);
    }
    return true;
  }

  /** Resolves when no run that was begun here is under way, or one asks. */
  async finished(): Promise<void> {
    while (this.#runs.size > 0 && ![...this.sessions.keys()].some((id) => this.#questions.has(id))) {
      await Promise.race([...this.#runs.values()].map(({ promise }) => promise));
    }
  }

  /** Whether an agent waits for an answer in the current session. */
  get hasQuestion(): boolean {
    return this.current !== undefined && this.#questions.has(this.current);
  }

  nameOf(agentId: string): string {
    return this.agents.find(({ id }) => id === agentId)?.name ?? agentId;
  }

  say(text: string, style?: Style): void {
    this.setting.screen.line(text, style);
  }

  /** Say why a line was not carried out. */
  refuse(text: string): void {
    this.hasFailed = true;
    this.say(text, "refused");
  }

  /** Show the last messages of a session, without those that were shown. */
  async showMessages(sessionId: string, limit = SHOWN_MESSAGES): Promise<void> {
    const { messages } = await this.setting.client.listMessages(sessionId, { limit });
    for (const message of messages) if (!this.#shown.has(message.id)) this.#showMessage(message);
  }

  async #send(content: string): Promise<void> {
    const answered = Promise.withResolvers<void>();
    this.#answered = answered.promise;
    try {
      await this.#deliver(content);
    } finally {
      answered.resolve();
    }
  }

  async #deliver(content: string): Promise<void> {
    const { client } = this.setting;
    const question = this.current === undefined ? undefined : this.#questions.get(this.current);
    if (question && this.current !== undefined) {
      this.#questions.delete(this.current);
      await client.send(answerTo(question, this.current, content));
      return;
    }
    const id = randomUUID().replaceAll("-", "");
    this.#shown.add(id);
    const message = { type: "chat", id, content } as const;
    const isSentence = this.#isRouted && this.addressee === undefined;
    const { runId } = await (isSentence ? this.#saySentence(message) : this.#sendToSession(message));
    if (runId !== undefined) this.#runs.set(runId, Promise.withResolvers());
  }

  async #sendToSession(message: object): Promise<MessageAnswer> {
    const sessionId = this.current ?? (await this.create()).id;
    return this.setting.client.send({ ...message, sessionId } as OutgoingMessage);
  }

  /** Say a sentence that names no session. The session that hears it is the current one from then on. */
  async #saySentence(message: object): Promise<MessageAnswer> {
    const { client, userId } = this.setting;
    // It may go on in a session that another client has begun: whose events arrive only if it was found before.
    await this.find();
    const answer = await this.#withRoom(async (connection) => {
      const said = { ...message, sessionId: null, userId, connectionId: connection.id };
      const answer = await client.send(said as OutgoingMessage);
      const { sessionId, routed } = answer;
      if (sessionId !== undefined && !this.sessions.has(sessionId) && routed?.by !== "continues") {
        this.made.add(sessionId);
        this.#connectionOf.set(sessionId, connection);
      }
      return answer;
    });
    const { sessionId, routed } = answer;
    // The catalogue has no `routing` any more.
    if (!routed) this.#isRouted = false;
    else if (routed.ignored) this.#showOnFloor("routed", routed);
    if (sessionId === undefined) return answer;
    if (!this.#connectionOf.has(sessionId)) {
      await this.#bind(sessionId);
      await this.showMessages(sessionId);
    }
    this.current = sessionId;
    return answer;
  }

  /** Show what happened to a sentence that no session heard. */
  #showOnFloor<T extends "routed" | "arbitration">(type: T, data: ServerEventOf<T>["data"]): void {
    const event = { type, data, timestamp: new Date().toISOString() } as ServerEvent;
    for (const piece of this.#narrator.describe(event)) this.#showPiece(piece);
  }

  /** A refusal of the arbiter arrives as an event too, which says more, unless there is no session. */
  #report(error: unknown): void {
    if (!(error instanceof ClientError)) throw error;
    if (error.code === "agent_busy") return this.say(`· ${this.words.busy}`, "waiting");
    this.hasFailed = true;
    const { decision, routed } = error.facts;
    if (routed && decision) {
      this.#showOnFloor("routed", routed);
      this.#showOnFloor("arbitration", decision);
    }
    if (error.code !== "rejected") this.refuse(`✗ ${error.code}: ${error.message}`);
  }

  async #follow(connection: Connection): Promise<void> {
    for await (const event of connection.stream) {
      if (event.type === "connected") await this.#connect(connection, event.data.connectionId);
      else if (event.type === "agent_list") this.agents = event.data.agents;
      else if (event.type === "reset") await this.#readAgain(event.data.sessionId ?? connection);
      else if (event.type !== "bye") {
        await this.#answered;
        this.#show(event, connection);
      }
    }
  }

  /** A connection that the server no longer knew has another id, and no sessions. */
  async #connect(connection: Connection, connectionId: string): Promise<void> {
    const isNew = connection.id !== connectionId;
    connection.id = connectionId;
    connection.connected.resolve();
    if (isNew) await this.#readAgain(connection);
    // After the sessions, because a line typed in answer to these words needs them.
    if (this.#isAway) this.say(this.words.back);
    this.#isAway = false;
  }

  /** Events of a session, or of a connection's, were missed: show the messages among them, and end waits for runs. */
  async #readAgain(about: string | Connection): Promise<void> {
    const followed = [...this.sessions.keys()].filter((id) => this.#connectionOf.get(id) === about);
    const missed = typeof about === "string" ? [about] : followed;
    for (const id of missed) {
      await this.#bind(id);
      if (id === this.current && this.sessions.has(id)) await this.showMessages(id);
    }
    if ([...this.sessions.values()].every(({ activity }) => activity !== "running")) this.#endRuns();
  }

  #endRuns(): void {
    for (const run of this.#runs.values()) run.resolve();
    this.#runs.clear();
  }

  /** Bind a session to the connection, so that its events arrive. */
  async #bind(sessionId: string): Promise<void> {
    const { client } = this.setting;
    const load = async (connection: Connection) => {
      const loaded = await client.loadSession({ sessionId, connectionId: connection.id });
      this.#connectionOf.set(sessionId, connection);
      return loaded;
    };
    const known = this.#connectionOf.get(sessionId);
    try {
      const { session } = await (known ? load(known) : this.#withRoom(load));
      this.#keep(session as Session);
      if (session.activity === "waiting") await this.#findQuestion(session as Session);
    } catch (error) {
      if (!(error instanceof ClientError && error.code === "session_not_found")) throw error;
      this.#lose(sessionId);
    }
  }

  async #findQuestion({ id, floorId }: Session): Promise<void> {
    const { events } = await this.setting.client.readFloorLog(floorId, { limit: READ_EVENTS });
    const question = events.find(
      ({ type, sessionId }) => sessionId === id && /^(tool_confirmation|user_question)_request$/.test(type),
    );
    if (question) this.#questions.set(id, question as unknown as PendingInteraction);
  }

  #keep(session: Session): void {
    this.sessions.set(session.id, session);
    this.#narrator.meet(session.id, session.agentId);
  }

  /** @param replacedBy the session in which it goes on: any client of its user may move it */
  #lose(sessionId: string, replacedBy?: string): void {
    this.sessions.delete(sessionId);
    this.#connectionOf.delete(sessionId);
    this.#questions.delete(sessionId);
    if (this.made.delete(sessionId) && replacedBy !== undefined) this.made.add(replacedBy);
    if (this.current !== sessionId) return;
    this.current = replacedBy;
    if (replacedBy === undefined) this.#isChosen = false;
  }

  #show(event: ServerEvent, connection: Connection): void {
    const { sessionId = "" } = event;
    // Also that of a session that another client has begun, and that the server has bound.
    this.#connectionOf.set(sessionId, connection);
    this.#learn(event, sessionId);
    if (event.type === "message" && !this.#isNews(event.data)) return;
    if (event.type === "error" && event.data.runId !== undefined) this.hasFailed = true;
    for (const piece of this.#narrator.describe(event)) this.#showPiece(piece);
    switch (event.type) {
      case "session_created":
        return this.#keep(event.data);
      case "agent_switched":
        return this.say(`↺ ${this.words.handsOver(this.nameOf(event.data.previousAgentId), event.data.agentName)}`);
      case "tool_call":
        return this.#showTool(event.data.agent, `⚙ ${event.data.function.name} ${event.data.function.arguments}`);
      case "tool_result":
        return this.#showTool(event.data.agent, `${event.data.status === "error" ? "✗" : "→"} ${event.data.content}`);
      case "tool_confirmation_request":
      case "user_question_request":
        return this.#showQuestion(event as PendingInteraction, sessionId);
      case "interaction_resolved":
        return void this.#questions.delete(sessionId);
      case "complete":
        return this.#complete(event.data);
      default:
        return undefined;
    }
  }

  /** Keep what an event says about its session. */
  #learn(event: ServerEvent, sessionId: string): void {
    const session = this.sessions.get(sessionId);
    if (!session) return;
    const next = sessionAfter(session, event);
    if (next && next.state !== "archived") this.sessions.set(sessionId, next);
    else this.#lose(sessionId, next?.replacedBy);
  }

  /** Whether a message was not typed here. A finished one is remembered. */
  #isNews({ id, role, streaming }: ServerEventOf<"message">["data"]): boolean {
    const isTyped = role === "user" && this.#shown.has(id);
    if (!streaming) this.#shown.add(id);
    return !isTyped;
  }

  #showPiece({ agentId, mark, style, text, path = [] }: NarrationPiece): void {
    const speaker = [this.nameOf(agentId), ...path].join(" › ");
    if (mark === AGENT_MARK)
      return this.setting.screen.stream(`${"  ".repeat(path.length)}${speaker} ${AGENT_MARK} `, text);
    // What a user says has no style; who hears it has one.
    const isSaid = mark === USER_MARK && style === undefined;
    this.say(
      [mark, speaker, ...(isSaid ? [USER_MARK] : []), text.trim()].filter((part) => part !== "").join(" "),
      style,
    );
  }

  #showTool({ depth }: { depth: number }, text: string): void {
    this.say(`${"  ".repeat(depth + 1)}${cutToWidth(text, TOOL_COLUMNS)}`, "quiet");
  }

  #showMessage({ id, role, content, agent, sessionId }: Message): void {
    this.#shown.add(id);
    if (content === "") return;
    const agentId = agent?.path[0] ?? this.sessions.get(sessionId)?.agentId ?? "";
    const { screen } = this.setting;
    const who = role === "user" ? `${this.words.you} ${USER_MARK} ` : `${this.nameOf(agentId)} ${AGENT_MARK} `;
    screen.stream(who, content);
    screen.endText();
  }

  #showQuestion(question: PendingInteraction, sessionId: string): void {
    this.#questions.set(sessionId, question);
    const isElsewhere = sessionId !== this.current;
    const agentId = this.sessions.get(sessionId)?.agentId ?? "";
    if (isElsewhere) this.say(`? ${this.words.asksElsewhere(this.nameOf(agentId))}`);
    else for (const line of questionLines(question, this.words)) this.say(line);
    // The run goes on when the question is answered: no line waits for its end.
    for (const run of this.#runs.values()) run.resolve();
    for (const runId of this.#runs.keys()) this.#runs.set(runId, Promise.withResolvers());
  }

  #complete({ runId, cancelled }: ServerEventOf<"complete">["data"]): void {
    this.setting.screen.endText();
    if (cancelled) this.say(`■ ${this.words.aborted}`, "quiet");
    this.#runs.get(runId)?.resolve();
    this.#runs.delete(runId);
  }

  #noteStatus(status: StreamStatus): void {
    if (status !== "waiting" || this.#isAway) return;
    this.#isAway = true;
    this.say(this.words.lost);
  }
}
