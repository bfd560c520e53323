import { z } from "zod";
import type { ToolCall } from "../../protocol/interaction.ts";
import { parseJson } from "../../shared/json.ts";
import { cleanText, copyText, cutText, textWithin } from "../../shared/text.ts";
import type { Part } from "../agent.ts";
import type { Redactor } from "../process/redactor.ts";

/** The longest arguments, and the longest result, of a tool in an event, in UTF-16 units. */
const MAX_ARGUMENTS_UNITS = 65_536;
const MAX_RESULT_UNITS = 65_536;
/** The longest string within arguments that exceed this limit, in UTF-16 units. */
const MAX_ARGUMENT_UNITS = 4_096;
/** The longest output of a running tool per update, and the maximum number of updates per call. */
const MAX_PROGRESS_UNITS = 4_096;
const MAX_PROGRESS_PARTS = 100;
/** The longest text on either side of a change to a file, in UTF-16 units. */
const MAX_DIFF_UNITS = 16_384;
/** The longest path of a file, address of a resource, or name of a mode, a status and the like, in UTF-16 units. */
const MAX_PATH_UNITS = 4_096;
const MAX_WORD_UNITS = 256;
/** The maximum number of steps of a plan. */
const MAX_PLAN_STEPS = 100;
/**
 * Tool calls of one run that are remembered by id, and their arguments, in UTF-16 units; beyond this, the oldest are
 * dropped.
 */
const MAX_CALLS = 10_000;
const MAX_REMEMBERED_UNITS = 4_194_304;

const text = z.string();
const optional = text.nullish();

const Content = z.union([
  z.looseObject({ type: z.literal("text"), text }),
  z.looseObject({ type: text, mimeType: optional, uri: optional, name: optional }),
]);

const ToolContent = z.union([
  z.looseObject({ type: z.literal("content"), content: Content }),
  z.looseObject({ type: z.literal("diff"), path: text, oldText: optional, newText: text }),
  z.looseObject({ type: text }),
]);

const Meta = z.record(text, z.unknown()).nullish().catch(undefined);

/** A tool call as updates and permission requests describe it. Any field may be missing. */
export const ToolUpdate = z.looseObject({
  toolCallId: text.min(1),
  title: optional.catch(undefined),
  name: optional.catch(undefined),
  kind: optional.catch(undefined),
  status: optional.catch(undefined),
  rawInput: z.unknown().optional(),
  rawOutput: z.unknown().optional(),
  content: z.array(ToolContent).nullish().catch(undefined),
  _meta: Meta,
});
export type ToolUpdate = z.infer<typeof ToolUpdate>;

const Chunk = z.looseObject({ content: Content, messageId: optional, _meta: Meta });
const Plan = z.looseObject({
  entries: z.array(z.looseObject({ content: text, status: optional, priority: optional })),
});
const Window = z.looseObject({ used: z.number(), size: z.number() });

/** `session/update`. Invalid updates are dropped: they come from a program, and a newer version may send other ones. */
export const Notification = z.looseObject({
  sessionId: text,
  update: z.looseObject({ sessionUpdate: text, _meta: Meta }),
});
export type Notification = z.infer<typeof Notification>;
type Update = Notification["update"];

interface Call {
  name: string;
  /** As they are shown; undefined while they are unknown. */
  args: string | undefined;
  isReported: boolean;
  isDone: boolean;
  progress: number;
  lastProgress: string;
}

/** Converts an agent's updates to parts, in their order. */
export class UpdateReader {
  readonly #hasMessageIds: boolean;
  readonly #redactor: Redactor;
  readonly #calls = new Map<string, Call>();
  #rememberedUnits = 0;
  #messageId: string | undefined;
  /** Whether the agent produced output since the prompt. */
  hasSpoken = false;
  /** A failure that the agent reported besides its answer and does not retry. */
  failure: unknown;
  /** The token counts of an update. */
  usage: unknown;

  /**
   * @param hasMessageIds whether text without a message id is a log line of the program
   * @param redactor removes secrets from what is cut, because a part of a secret is not found. Text may still contain
   *   them
   */
  constructor(hasMessageIds: boolean, redactor: Redactor) {
    this.#hasMessageIds = hasMessageIds;
    this.#redactor = redactor;
  }

  read(received: Update): Part[] {
    const { sessionUpdate } = received;
    if (sessionUpdate === "agent_message_chunk" || sessionUpdate === "agent_thought_chunk")
      return this.#chunk(received);
    const update: Update = { ...this.#redactor.value(received), sessionUpdate };
    switch (sessionUpdate) {
      case "tool_call":
      case "tool_call_update": {
        const call = ToolUpdate.safeParse(received).data;
        return call ? this.tool(this.clean(call)) : [];
      }
      case "plan": {
        const plan = Plan.safeParse(update).data;
        const steps = plan?.entries.slice(0, MAX_PLAN_STEPS).map(({ content, status, priority }) => ({
          content: textWithin(content, MAX_ARGUMENT_UNITS),
          ...(status && { status: wordOf(status) }),
          ...(priority && { priority: wordOf(priority) }),
        }));
        return steps ? [{ type: "data", name: "plan", data: { entries: steps } }] : [];
      }
      case "usage_update": {
        const window = Window.safeParse(update).data;
        return window ? [{ type: "data", name: "context", data: { used: window.used, size: window.size } }] : [];
      }
      case "current_mode_update":
        return typeof update["currentModeId"] === "string"
          ? [{ type: "data", name: "mode", data: { id: wordOf(update["currentModeId"]) } }]
          : [];
      case "session_info_update":
        return this.#sessionInfo(update);
      default:
        return [];
    }
  }

  /** Whether a call with this id was reported, and is remembered. */
  knows(toolCallId: string): boolean {
    return this.#calls.get(idOf(toolCallId))?.isReported === true;
  }

  /** A tool call without secrets. */
  clean(update: ToolUpdate): ToolUpdate {
    return { ...this.#redactor.value(update), status: update.status };
  }

  /** A tool call, without secrets, from an update or a permission request. `isDue`: it must be reported now. */
  tool(update: ToolUpdate, isDue = false): Part[] {
    const { toolCallId, status } = update;
    const call = this.#knownCall(update);
    if (call.isDone) return [];
    const hasEnded = status === "completed" || status === "failed";
    const parts: Part[] = [];
    if (!call.isReported && (isDue || hasEnded || call.args !== undefined)) {
      call.isReported = true;
      this.hasSpoken = true;
      this.#messageId = undefined;
      parts.push({ type: "tool-call", call: this.callOf(update) });
    }
    if (hasEnded) {
      call.isDone = true;
      this.#remember(call, undefined);
      const content = resultOf(update);
      parts.push(...diffsOf(update), {
        type: "tool-result",
        toolCallId: idOf(toolCallId),
        toolName: call.name,
        content,
        status: status === "completed" ? "success" : "error",
      });
    } else if (call.isReported && !isDue) {
      parts.push(...progressOf(call, update, this.#redactor));
    }
    return parts;
  }

  /** A call as users see it. Without known arguments it shows the agent's description. */
  callOf(update: ToolUpdate): ToolCall {
    const { name, args } = this.#knownCall(update);
    const description = textIn(update) || update.title;
    const shown = args ?? argumentsOf(description ? { description } : {});
    return { toolCallId: idOf(update.toolCallId), function: { name, arguments: shown } };
  }

  #chunk(update: Update): Part[] {
    const chunk = Chunk.safeParse(update).data;
    if (!chunk) return [];
    const { content, messageId, _meta } = chunk;
    if (_meta?.["usage"] !== undefined) this.usage = _meta["usage"];
    if (content.type !== "text" || !("text" in content)) {
      const { type, mimeType, uri, name } = this.#redactor.value(content) as Record<
        "type" | "mimeType" | "uri" | "name",
        string | undefined
      >;
      const address = uri && textWithin(uri, MAX_PATH_UNITS);
      const words = { type: wordOf(type), mimeType: wordOf(mimeType), uri: address, name: wordOf(name) };
      return [{ type: "data", name: "content", data: words }];
    }
    const said = cleanText(content.text as string);
    if (said === "") return [];
    if (update.sessionUpdate === "agent_thought_chunk") return [{ type: "reasoning", text: said }];
    if (this.#hasMessageIds && !messageId) return [{ type: "log", stream: "stdout", text: said }];
    const isNext = messageId && this.#messageId !== undefined && this.#messageId !== messageId;
    this.#messageId = messageId ?? this.#messageId;
    this.hasSpoken = true;
    return [{ type: "text", text: isNext ? `\n\n${said}` : said }];
  }

  #sessionInfo(update: Update): Part[] {
    const codex = update._meta?.["codex"] as { error?: { willRetry?: boolean } } | undefined;
    if (codex?.error && codex.error.willRetry !== true) this.failure = codex.error;
    return typeof update["title"] === "string"
      ? [{ type: "data", name: "title", data: { title: textWithin(update["title"], 256) } }]
      : [];
  }

  #knownCall(update: ToolUpdate): Call {
    const { rawInput } = update;
    const toolCallId = idOf(update.toolCallId);
    const name = nameIn(update);
    let call = this.#calls.get(toolCallId);
    if (!call) {
      call = {
        name: name ?? "tool",
        args: undefined,
        isReported: false,
        isDone: false,
        progress: 0,
        lastProgress: "",
      };
      this.#calls.set(toolCallId, call);
    } else if (!call.isReported && name !== undefined) {
      call.name = name;
    }
    // Kimi sends the arguments as text until the call is approved.
    const input = hasContent(rawInput) || call.args !== undefined ? rawInput : objectIn(textIn(update));
    this.#remember(call, hasContent(input) ? argumentsOf(input) : call.args);
    return call;
  }

  /** An agent may begin any number of calls, and end none. */
  #remember(call: Call, args: string | undefined): void {
    this.#rememberedUnits += (args?.length ?? 0) - (call.args?.length ?? 0);
    call.args = args;
    for (const [id, oldest] of this.#calls) {
      if (this.#calls.size <= MAX_CALLS && this.#rememberedUnits <= MAX_REMEMBERED_UNITS) return;
      this.#rememberedUnits -= oldest.args?.length ?? 0;
      this.#calls.delete(id);
    }
  }
}

/**
 * Agents put a tool's name into different fields. A title counts as a name if it is one word and not the command
 * itself.
 */
function nameIn({ name, _meta, title, kind, rawInput }: ToolUpdate): string | undefined {
  const claude = _meta?.["claudeCode"] as { toolName?: unknown } | undefined;
  const { command } = (rawInput ?? {}) as { command?: unknown };
  const titled = /^[A-Za-z][\w.-]{0,63}$/.test(title ?? "") && title !== command ? title : undefined;
  const named = [name, _meta?.["toolName"], claude?.toolName, titled, kind, title].find(
    (one): one is string => typeof one === "string" && one !== "",
  );
  return named === undefined ? undefined : textWithin(named, 256);
}

const objectIn = (said: string): unknown => (said.startsWith("{") ? parseJson(said) : undefined);

function hasContent(input: unknown): boolean {
  if (typeof input === "object" && input !== null) return Object.keys(input).length > 0;
  return input !== undefined && input !== null;
}

const wordOf = <T extends string | undefined | null>(word: T) => (word && textWithin(word, MAX_WORD_UNITS)) as T;

function idOf(toolCallId: string): string {
  return textWithin(toolCallId, 256);
}

function argumentsOf(input: unknown): string {
  const json = cleanText(JSON.stringify(input ?? {}));
  if (json.length <= MAX_ARGUMENTS_UNITS) return json;
  const shorter = JSON.stringify(input, (_, value: unknown) =>
    typeof value === "string" && value.length > MAX_ARGUMENT_UNITS ? `${cutText(value, MAX_ARGUMENT_UNITS)}…` : value,
  );
  return shorter.length <= MAX_ARGUMENTS_UNITS
    ? cleanText(shorter)
    : JSON.stringify({ cut: cleanText(cutText(json, MAX_ARGUMENT_UNITS)) });
}

function textIn({ content }: ToolUpdate): string {
  const pieces = content?.map((item) => {
    const inner = item.type === "content" ? (item["content"] as { type: string; text?: string }) : undefined;
    return inner?.type === "text" ? (inner.text ?? "") : "";
  });
  return (pieces ?? []).filter((piece) => piece !== "").join("\n");
}

function resultOf(update: ToolUpdate): string {
  const { rawOutput } = update;
  const said = textIn(update);
  const output = typeof rawOutput === "string" ? rawOutput : hasContent(rawOutput) ? JSON.stringify(rawOutput) : "";
  return textWithin(said === "" ? output : said, MAX_RESULT_UNITS);
}

function diffsOf({ toolCallId, content }: ToolUpdate): Part[] {
  return (content ?? []).flatMap((item): Part[] => {
    if (item.type !== "diff" || typeof item["path"] !== "string") return [];
    const side = (value: unknown) => (typeof value === "string" ? textWithin(value, MAX_DIFF_UNITS) : undefined);
    const { path, oldText, newText } = item as { path: string; oldText?: unknown; newText?: unknown };
    const data = {
      toolCallId: idOf(toolCallId),
      path: textWithin(path, MAX_PATH_UNITS),
      oldText: side(oldText),
      newText: side(newText),
    };
    return [{ type: "data", name: "diff", data }];
  });
}

/** Report only changes, because agents repeat updates and each report is an event in the log. */
function progressOf(call: Call, update: ToolUpdate, redactor: Redactor): Part[] {
  // The end may be the beginning of a secret; the next update repeats it.
  const { clean } = redactor.split(textIn(update));
  const output = cleanText(copyText(clean.slice(-MAX_PROGRESS_UNITS)));
  const status = update.status ?? undefined;
  const title = update.title ? textWithin(update.title, 256) : undefined;
  const state = JSON.stringify([status, title, output]);
  if (state === call.lastProgress || call.progress >= MAX_PROGRESS_PARTS) return [];
  call.lastProgress = state;
  call.progress += 1;
  return [
    { type: "data", name: "tool_progress", data: { toolCallId: idOf(update.toolCallId), status, title, output } },
  ];
}
