import { resolve } from "node:path";
import type { ClientConnection, ContentBlock, PromptResponse } from "@agentclientprotocol/sdk";
import type { AcpAdapter } from "../../config/catalog/adapter.ts";
import type { AgentEntry } from "../../config/catalog/catalog.ts";
import { AppError } from "../../protocol/errors.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import { sleep, within } from "../../shared/waiting.ts";
import type { CallTree, RunControl, ToolServer, Turn } from "../agent.ts";
import type { Line } from "../process/line-reader.ts";
import { type ProgramRun, programLate } from "../process/program-run.ts";
import { brief } from "../transcript.ts";
import { acpFailureOf, isAnswer, toFailure, tokensInMeta, toUsage } from "./acp-failure.ts";
import { toStream } from "./acp-stream.ts";
import { CANCELLED, Permission } from "./permission.ts";
import { PROFILES, protocolModeOf } from "./profiles.ts";
import { Notification, UpdateReader } from "./updates.ts";
import { UserQuestions } from "./user-questions.ts";

/** The longest message of the protocol, in UTF-16 units: enough for an image or a large change of a file. */
const MAX_MESSAGE_UNITS = 16_777_216;
/** How long a turn may take to end after it was cancelled, and a session to close, in ms. */
const CANCEL_MS = 2_000;
/**
 * How long after the end of its turn an agent's text still belongs to the reply, in ms: some send the last of it then.
 */
const LAST_WORDS_MS = 250;
const CLOSE_MS = 1_000;
/** How long the program may take to exit by itself, in ms: its turn is stored, and the session waits for the exit. */
const CLEAN_EXIT_MS = 500;
/**
 * How long an agent that has repeated nothing before its answer may take to begin, in ms of its own: it is asked
 * something afterwards, which a busy one answers later.
 */
const REPEAT_QUIET_MS = 300;
/** How long it may take to answer that question, in ms: a few agents answer no unknown request. */
const ECHO_MS = 2_000;
/** How long an agent may repeat its conversation after its answer, in ms. */
const MAX_REPEAT_MS = 60_000;
/** The maximum number of prompts in one run: the user's message, and the user's reason for each rejection. */
const MAX_PROMPTS = 20;
/** Reasons to stop that need no note at the message; a refusal fails the run. */
const WHOLE: ReadonlySet<unknown> = new Set([undefined, null, "end_turn", "refusal", "cancelled"]);

interface Capabilities {
  readonly loadSession?: boolean;
  readonly promptCapabilities?: { readonly image?: boolean } | null;
  readonly mcpCapabilities?: { readonly http?: boolean } | null;
  readonly sessionCapabilities?: Readonly<Record<string, unknown>> | null;
}

/** What an agent sends when it is asked to continue its conversation. */
interface Repeated {
  /** Updates. */
  count: number;
  /** Those of them before its answer, once that was read. What follows is read before the request settles. */
  beforeAnswer?: number;
}

/** The id of a call of a sub-agent's session, which counts its calls from the beginning too. */
const otherCallId = (sessionId: string, toolCallId: string): string => `${sessionId}/${toolCallId}`;

/** One turn with a coding agent over its standard streams, from the handshake to the end of its process. */
export class AcpTurn {
  readonly #entry: AgentEntry;
  readonly #adapter: AcpAdapter;
  readonly #run: ProgramRun;
  readonly #turn: Turn;
  readonly #control: RunControl;
  readonly #clock: Clock;
  readonly #toolServer: () => ToolServer | undefined;
  readonly #reader: UpdateReader;
  readonly #user: UserQuestions;
  #connection: ClientConnection | undefined;
  #capabilities: Capabilities = {};
  #sessionId: string | undefined;
  #hasNotedStranger = false;
  /** Set while the agent is asked to continue its conversation. */
  #repeated: Repeated | undefined;
  /** Resolves when the current prompt is answered. */
  #prompting: Promise<unknown> | undefined;
  #ending: Promise<void> | undefined;

  constructor(
    entry: AgentEntry,
    adapter: AcpAdapter,
    about: {
      run: ProgramRun;
      turn: Turn & { readonly tree: CallTree };
      control: RunControl;
      clock: Clock;
      /** The address of this run's tools for the program; undefined if the run has no tools. */
      toolServer: () => ToolServer | undefined;
    },
  ) {
    this.#entry = entry;
    this.#adapter = adapter;
    this.#run = about.run;
    this.#turn = about.turn;
    this.#control = about.control;
    this.#clock = about.clock;
    this.#toolServer = about.toolServer;
    this.#reader = new UpdateReader(PROFILES[adapter.profile].hasMessageIds === true, this.#run.redactor);
    this.#user = new UserQuestions(entry.id, about);
  }

  /** Whether the agent waits for a person, so that its silence is not a failure. */
  get isWaiting(): boolean {
    return this.#user.isWaiting;
  }

  /** Put the agent's output into the run's queue, and close the queue after the turn. Never rejects. */
  async carryOut(): Promise<void> {
    const { items } = this.#run;
    try {
      await this.#connect();
      await this.#openSession();
      const mode = protocolModeOf(this.#adapter);
      if (mode !== undefined)
        await this.#requestInTime("session/set_mode", { sessionId: this.#sessionId, modeId: mode });
      await this.#converse();
    } catch (error) {
      items.push({ type: "failure", error: await this.#explain(error) }, 0);
    }
    this.#run.close();
  }

  /** Cancel the current request, close the session, and end the process. */
  async end(): Promise<void> {
    this.#ending ??= this.#end();
    await this.#ending;
  }

  async #end(): Promise<void> {
    const { items, child } = this.#run;
    items.discard();
    const isCut = this.#prompting !== undefined;
    const exited = child.exited.then(() => {});
    if (this.#connection && this.#sessionId !== undefined) {
      const { agent } = this.#connection;
      if (isCut) {
        await child.noteProcesses();
        void agent.notify("session/cancel", { sessionId: this.#sessionId }).catch(() => {});
        await within(this.#clock, CANCEL_MS, Promise.race([exited, this.#prompting!]));
      }
      if (this.#capabilities.sessionCapabilities?.["close"]) {
        const closed = this.#request("session/close", { sessionId: this.#sessionId }).catch(() => {});
        await within(this.#clock, CLOSE_MS, Promise.race([exited, closed]));
      }
    }
    await child.end(isCut || !this.#connection ? 0 : CLEAN_EXIT_MS);
    this.#connection?.close();
  }

  async #connect(): Promise<void> {
    const { client, RequestError } = await import("@agentclientprotocol/sdk");
    // The program works for this run alone, and so do its sub-agents, which have sessions of their own.
    const app = client({ name: "interlock" })
      .onRequest("session/request_permission", ({ params, signal }) => this.#decide(params, signal))
      .onRequest("elicitation/create", ({ params, signal }) => this.#user.fill(params, signal) as never)
      .onRequest("*", ({ method }) => {
        throw RequestError.methodNotFound(method);
      });
    const { child, items } = this.#run;
    const stream = toStream(
      this.#lines(),
      child.stdin,
      {
        onUpdate: (params) => this.#update(params),
        onAnswer: () => {
          if (this.#repeated) this.#repeated.beforeAnswer ??= this.#repeated.count;
        },
        onStrayLine: (line) => this.#run.log("stdout", line),
      },
      () => {
        const error = new AppError("too_large", "The agent sent a message of more than 16,777,216 characters.");
        items.push({ type: "failure", error }, 0);
        return error;
      },
    );
    this.#connection = app.connect(stream);
    const greeting = await this.#requestInTime<{ agentCapabilities?: Capabilities | null } | null>("initialize", {
      protocolVersion: 1,
      clientInfo: { name: "interlock", version: "1" },
      clientCapabilities: {
        elicitation: { form: {} },
        // Ask Codex and Claude to report failures as failures instead of as text.
        _meta: { jetbrains: { air: { version: 1, capabilities: ["sessionFailure"] } } },
      },
    });
    this.#capabilities = greeting?.agentCapabilities ?? {};
  }

  /** Continue the conversation that the turn names, or begin one. */
  async #openSession(): Promise<void> {
    const { items } = this.#run;
    const known = this.#turn.providerSessionId;
    if (known !== undefined && (await this.#resume(known))) {
      this.#sessionId = known;
      // Report the conversation's home again, because another worker may have had it before.
      items.push({ type: "provider-session", id: known, isLocal: true }, 0);
      return;
    }
    if (known !== undefined) items.push({ type: "provider-session", id: undefined }, 0);
    const { instructions } = this.#entry;
    const opened = await this.#requestInTime<{ sessionId?: unknown } | null>("session/new", {
      ...this.#sessionParams(),
      ...(this.#acceptsInstructions &&
        instructions !== undefined && {
          systemPrompt: { mode: "append", content: [{ type: "text", text: instructions }] },
        }),
    });
    const sessionId = opened?.sessionId;
    if (typeof sessionId !== "string" || sessionId === "") {
      throw new AppError("provider_unreachable", "This agent failed: it opened no session.");
    }
    this.#sessionId = sessionId;
    items.push({ type: "provider-session", id: sessionId, isLocal: true }, 0);
  }

  /** @returns false if the conversation is lost */
  async #resume(sessionId: string): Promise<boolean> {
    const { loadSession, sessionCapabilities } = this.#capabilities;
    const method = sessionCapabilities?.["resume"] ? "session/resume" : loadSession && "session/load";
    if (!method) return false;
    // An agent repeats the conversation when it loads it. Some do so when they resume it, although they must not.
    const repeated: Repeated = { count: 0 };
    this.#repeated = repeated;
    try {
      await this.#requestInTime(method, { sessionId, ...this.#sessionParams() });
      // The answer is the end of what it caused.
      if (!repeated.beforeAnswer) await this.#untilRepeated(repeated);
      return true;
    } catch (error) {
      const failure = toFailure(error, this.#run.redactor.text);
      // Only an error answer of the agent means that the conversation does not exist.
      if (!isAnswer(error) || failure.code !== "provider_unreachable") throw error;
      return false;
    } finally {
      this.#repeated = undefined;
    }
  }

  /**
   * Some agents answer first and repeat the conversation afterwards. Resolves when the agent has sent nothing for a
   * while, and has answered a question since: what it had to send by then, it has sent before.
   */
  async #untilRepeated(repeated: Repeated): Promise<void> {
    const begunAt = this.#clock.now();
    for (let before = -1; before !== repeated.count; ) {
      if (this.#clock.now() >= begunAt + MAX_REPEAT_MS) {
        throw new AppError("provider_unreachable", "This agent repeated its conversation for more than 60 s.");
      }
      before = repeated.count;
      await sleep(this.#clock, REPEAT_QUIET_MS, this.#control.signal);
      await this.#echo();
    }
  }

  /** Ask the agent something that it does not know, and wait for its answer. */
  async #echo(): Promise<void> {
    const answered = this.#request("_interlock/echo", {}).catch(() => {});
    await within(this.#clock, ECHO_MS, answered);
  }

  /** Of the six tested agents, two accept instructions separately; the others get them with the first prompt. */
  get #acceptsInstructions(): boolean {
    const { systemPrompt } = this.#capabilities.sessionCapabilities ?? {};
    return systemPrompt !== undefined && systemPrompt !== null && systemPrompt !== false;
  }

  #sessionParams() {
    const toolServer = this.#toolServer();
    const acceptsHttp = this.#capabilities.mcpCapabilities?.http === true;
    return {
      cwd: resolve(this.#adapter.cwd ?? "."),
      mcpServers:
        toolServer && acceptsHttp
          ? [
              {
                type: "http" as const,
                name: toolServer.name,
                url: toolServer.url,
                headers: Object.entries(toolServer.headers).map(([name, value]) => ({ name, value })),
              },
            ]
          : [],
    };
  }

  /**
   * Send the user's message, and then each reason for a rejection as a separate prompt, because the protocol has no
   * field for it.
   */
  async #converse(): Promise<void> {
    const { items, redactor } = this.#run;
    const sessionId = this.#sessionId;
    let prompt = await this.#promptOfTurn();
    for (let prompts = 1; ; prompts += 1) {
      this.#reader.hasSpoken = false;
      this.#user.wasRejected = false;
      const answered = this.#request<Partial<PromptResponse> | null>("session/prompt", { sessionId, prompt });
      this.#prompting = answered.catch(() => {});
      const response = (await answered) ?? {};
      await within(this.#clock, LAST_WORDS_MS, this.#run.child.ended);
      this.#prompting = undefined;
      const usage = toUsage((response as { usage?: unknown }).usage, this.#reader.usage, tokensInMeta(response));
      if (usage) items.push({ type: "usage", usage }, 0);
      const { hasSpoken, failure } = this.#reader;
      const failed = acpFailureOf(response, { hasSpoken, failure, wasRejected: this.#user.wasRejected }, redactor.text);
      if (failed) throw failed;
      const { stopReason } = response;
      if (stopReason === "max_tokens" || stopReason === "max_turn_requests") {
        items.push({ type: "finish", reason: "length" }, 0);
      } else if (!WHOLE.has(stopReason)) {
        items.push({ type: "finish", reason: "incomplete", word: redactor.text(String(stopReason)) }, 0);
      }
      const replies = this.#user.drainReplies();
      if (replies.length === 0 || prompts === MAX_PROMPTS) return;
      prompt = [{ type: "text", text: replies.join("\n\n") }];
    }
  }

  async #promptOfTurn(): Promise<ContentBlock[]> {
    const { input, providerSessionId } = this.#turn;
    const isResumed = providerSessionId !== undefined && providerSessionId === this.#sessionId;
    const { missed, interrupted } = brief(this.#entry.id, this.#turn, isResumed ? "conversation" : "nothing");
    const hasInstructions = isResumed || this.#acceptsInstructions;
    const instructions = hasInstructions ? undefined : this.#entry.instructions;
    const text = [instructions, missed, input.content, interrupted].filter(Boolean).join("\n\n");
    const images = this.#capabilities.promptCapabilities?.image ? (input.images ?? []) : [];
    const blocks = await Promise.all(
      images.map(async (image): Promise<ContentBlock> => {
        const bytes = await this.#control.loadImage(image);
        return { type: "image", mimeType: image.mimeType, data: Buffer.from(bytes).toString("base64") };
      }),
    );
    return [{ type: "text", text }, ...blocks];
  }

  #update(params: unknown): void {
    const notification = Notification.safeParse(params).data;
    if (!notification) return;
    if (!this.#isOwn(notification.sessionId)) return this.#updateOther(notification);
    if (this.#repeated) {
      this.#repeated.count += 1;
      this.#run.noteReply();
      return;
    }
    // Ignore late output of an earlier turn.
    if (!this.#prompting) return;
    for (const part of this.#reader.read(notification.update)) this.#run.emit(part);
  }

  /** Of a sub-agent's session, what became of a call that the user was asked about; the rest is ignored. */
  #updateOther({ sessionId, update }: Notification): void {
    const { toolCallId } = update;
    const own = typeof toolCallId === "string" && otherCallId(sessionId, toolCallId);
    if (!own || !this.#reader.knows(own) || !this.#prompting) return this.#noteStranger();
    for (const part of this.#reader.read({ ...update, toolCallId: own })) this.#run.emit(part);
  }

  /** Whether this is the run's session, or the one that it tries to continue. */
  #isOwn(sessionId: unknown): boolean {
    return sessionId !== undefined && sessionId === (this.#sessionId ?? this.#turn.providerSessionId);
  }

  /** Log once that the program speaks of another session, because a faulty one may do so with every message. */
  #noteStranger(): void {
    // While a session is being opened, the program knows its id before its answer contains it.
    if (this.#hasNotedStranger || this.#sessionId === undefined) return;
    this.#hasNotedStranger = true;
    this.#run.log("stderr", "The agent sent messages of another session than that of this run. They are ignored.");
  }

  /** @param cancelled aborts when the agent no longer needs the answer */
  async #decide(params: unknown, cancelled: AbortSignal) {
    const permission = Permission.safeParse(params).data;
    if (!permission || !this.#prompting) return CANCELLED;
    const { sessionId, toolCall: asked } = permission;
    const toolCallId = this.#isOwn(sessionId) ? asked.toolCallId : otherCallId(sessionId, asked.toolCallId);
    const toolCall = this.#reader.clean({ ...asked, toolCallId });
    for (const part of this.#reader.tool(toolCall, true)) this.#run.emit(part);
    return await this.#user.permit(permission, this.#reader.callOf(toolCall), cancelled);
  }

  /** A request of the start, until the agent is prompted. What it prints meanwhile does not prolong the time. */
  async #requestInTime<Response>(method: string, params: object): Promise<Response> {
    const { start_timeout, silence_timeout } = this.#adapter;
    const isFirst = method === "initialize";
    const limitMs = isFirst ? start_timeout : silence_timeout;
    return await within(this.#clock, limitMs, this.#request<Response>(method, params), () => {
      throw programLate(isFirst ? "has not begun" : "has opened no conversation", limitMs);
    });
  }

  async *#lines(): AsyncGenerator<Line> {
    try {
      yield* this.#run.lines(MAX_MESSAGE_UNITS);
    } catch (error) {
      // The connection would report this as an end of the program.
      this.#run.items.push({ type: "failure", error }, 0);
      throw error;
    }
  }

  async #request<Response>(method: string, params: object): Promise<Response> {
    return await this.#connection!.agent.request<Response, object>(method, params);
  }

  /** Why the turn failed. If the agent's process has ended, its exit is the reason. */
  async #explain(error: unknown): Promise<unknown> {
    if (error instanceof AppError || isAnswer(error)) return toFailure(error, this.#run.redactor.text);
    if (this.#ending) return error;
    const { code, signal } = await this.#run.child.end();
    const how = code === null ? `was ended by ${signal}` : `ended with code ${code}`;
    return new AppError("provider_unreachable", `This agent's program ${how} in the middle of its turn.`, {
      cause: error,
    });
  }
}
