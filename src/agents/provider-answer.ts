import { createParser } from "eventsource-parser";
import type { AiSdkAdapter } from "../config/catalog/adapter.ts";
import { isObject, parseJson } from "../shared/json.ts";
import { boundedFetch } from "./bounded-fetch.ts";

type Provider = AiSdkAdapter["provider"];
type Json = Record<string, unknown>;

/** A provider's response is not the answer of a model. The error names its kind, without its content. */
export class BrokenAnswer extends Error {
  constructor(what: string, cause?: unknown) {
    super(what, cause === undefined ? undefined : { cause });
    this.name = "BrokenAnswer";
  }
}

/**
 * `fetch` for a model's requests. It corrects answers of status 200 whose meaning is plain and which the SDK does not
 * read, and ends a stream with the reply: after its last event the connection may linger or break. Errors in a stream
 * stay in it, so that the text before them is kept.
 * @throws BrokenAnswer for a page, or for JSON that is neither a reply nor an error
 */
export function fetchFor(provider: Provider): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await boundedFetch(input, init);
    if (!response.ok || !response.body) return response;
    const type = response.headers.get("content-type") ?? "";
    if (/\bhtml\b/i.test(type)) throw new BrokenAnswer(`${response.status} with a page (text/html)`);
    if (/\bjson\b/i.test(type)) return streamOfWhole(provider, response);
    return correctStream(response, response.body, READERS[provider]());
  };
}

interface EventReader {
  /** Whether the reply is complete, so that a broken connection does not matter. */
  isComplete: boolean;
  /** Whether nothing of the reply can follow. */
  isOver: boolean;
  /** @returns the frames for the SDK */
  convert(data: string, event: string | undefined): string;
}

const frame = (data: string | object, event?: string): string =>
  `${event === undefined ? "" : `event: ${event}\n`}data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;

function correctStream(response: Response, body: ReadableStream<Uint8Array>, events: EventReader): Response {
  const chunks = body.getReader();
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  let frames = "";
  const parser = createParser({
    onEvent: ({ data, event }) => {
      if (!events.isOver) frames += events.convert(data, event);
    },
  });
  const read = async () => {
    try {
      return await chunks.read();
    } catch (error) {
      if (events.isComplete) return { done: true as const, value: undefined };
      throw error;
    }
  };
  const corrected = new ReadableStream<Uint8Array>({
    async pull(controller) {
      while (frames === "" && !events.isOver) {
        const { done, value } = await read();
        // The last event may lack the empty line after it.
        parser.feed(done ? `${decoder.decode()}\n\n` : decoder.decode(value, { stream: true }));
        if (done) events.isOver = true;
      }
      if (frames !== "") controller.enqueue(encoder.encode(frames));
      frames = "";
      if (!events.isOver) return;
      controller.close();
      chunks.cancel().catch(() => {});
    },
    cancel: (reason) => chunks.cancel(reason),
  });
  const { status, statusText, headers } = response;
  return new Response(corrected, { status, statusText, headers });
}

const READERS: Readonly<Record<Provider, () => EventReader>> = {
  "openai-compatible": readChat,
  openai: () => readUntil(/"type"\s*:\s*"response\.(completed|incomplete|failed)"/),
  anthropic: readAnthropic,
  google: () => readUntil(/"finishReason"\s*:\s*"/, false),
};

/**
 * Forward events unchanged, and notice the event that completes the reply: one that matches `end`.
 * @param isLast whether no event follows it
 */
function readUntil(end: RegExp, isLast = true): EventReader {
  return {
    isComplete: false,
    isOver: false,
    convert(data, event) {
      if (end.test(data)) {
        this.isComplete = true;
        this.isOver = isLast;
      }
      return frame(data, event);
    },
  };
}

/** Keys of a chunk that have to be looked at; in a text they would have other quotes. */
const NOTABLE = /"(choices"\s*:\s*null|usage"\s*:\s*\{|error"|object"\s*:\s*"error)/;
const SAYING = /"(content|reasoning|reasoning_content)"\s*:\s*("[^"]|\[)|"tool_calls"\s*:\s*\[/;

/** Chat completions. A reply whose finish reason was left out before `[DONE]` is whole. */
function readChat(): EventReader {
  let hasSaid = false;
  let hasCalled = false;
  return {
    isComplete: false,
    isOver: false,
    convert(data) {
      if (data.trim() === "[DONE]") {
        const end = this.isComplete || !hasSaid ? "" : frame(chunkOf({}, hasCalled ? "tool_calls" : "stop"));
        this.isComplete = true;
        this.isOver = true;
        return end + frame("[DONE]");
      }
      hasSaid ||= SAYING.test(data);
      hasCalled ||= /"tool_calls"\s*:\s*\[/.test(data);
      this.isComplete ||= /"finish_reason"\s*:\s*"/.test(data);
      return NOTABLE.test(data) ? correctChunk(data) : frame(data);
    },
  };
}

function correctChunk(data: string): string {
  const value = parseJson(data);
  if (!isObject(value)) return frame(data);
  const error = errorIn(value);
  return frame(error ? { error } : { ...value, choices: value["choices"] ?? [], ...countsOf(value) });
}

const chunkOf = (delta: object, finish_reason: unknown, rest: object = {}): object => ({
  object: "chat.completion.chunk",
  choices: [{ index: 0, delta, finish_reason }],
  ...rest,
});

/** A provider's error in the form that the SDK reads; undefined if the value has none. */
function errorIn(value: Json): Json | undefined {
  const { error } = value;
  if (typeof error === "string") return { message: error };
  if (isObject(error)) return { ...error, message: String(error["message"] ?? "") };
  if (value["object"] !== "error" && value["type"] !== "error") return undefined;
  const { message, type, code } = value;
  return { message: String(message ?? ""), ...(type !== "error" && { type }), ...(code !== undefined && { code }) };
}

/** Usage with numbers in place of their digits, and without null. */
function countsOf(value: Json): Json {
  return isObject(value["usage"]) ? { usage: toCounts(value["usage"]) } : {};
}

function toCounts(usage: Json): Json {
  const known = Object.entries(usage).filter(([, count]) => count !== null);
  return Object.fromEntries(
    known.map(([key, count]) => {
      if (typeof count === "string" && /^\d{1,15}$/.test(count)) return [key, Number(count)];
      return [key, isObject(count) && !Array.isArray(count) ? toCounts(count) : count];
    }),
  );
}

const ANTHROPIC_DELTA = /^\s*\{\s*"type"\s*:\s*"content_block_(delta|start|stop)"/;
const ANTHROPIC_EVENTS: ReadonlySet<unknown> = new Set([
  "message_start",
  "content_block_start",
  "content_block_delta",
  "content_block_stop",
  "message_delta",
  "message_stop",
]);

/** Anthropic's messages. Its clients have to ignore events of unknown types. */
function readAnthropic(): EventReader {
  return {
    isComplete: false,
    isOver: false,
    convert(data, event) {
      if (ANTHROPIC_DELTA.test(data)) return frame(data, event);
      const value = parseJson(data);
      if (!isObject(value)) return frame(data, event);
      const type = value["type"] ?? event;
      if (type === "error") return frame({ type, error: { type, ...errorIn(value) } }, "error");
      if (!ANTHROPIC_EVENTS.has(type)) return "";
      if (type === "message_stop") {
        this.isComplete = true;
        this.isOver = true;
      }
      return frame({ ...value, ...(type === "message_start" ? startOf(value) : countsOf(value)) }, event);
    },
  };
}

function startOf({ message }: Json): Json {
  return isObject(message) ? { message: { ...message, usage: usageOfStart(message) } } : {};
}

const usageOfStart = (message: Json): Json => ({
  input_tokens: 0,
  ...(isObject(message["usage"]) && toCounts(message["usage"])),
});

/** An answer as a whole, as the stream that was asked for. */
async function streamOfWhole(provider: Provider, response: Response): Promise<Response> {
  const value = parseJson(await response.text());
  const frames = isObject(value) ? framesOf(provider, value) : undefined;
  if (frames === undefined) throw new BrokenAnswer(`${response.status} with JSON that is no reply`);
  return new Response(frames, { status: response.status, headers: { "content-type": "text/event-stream" } });
}

function framesOf(provider: Provider, value: Json): string | undefined {
  const error = Array.isArray(value) ? undefined : errorIn(value);
  if (error && provider === "anthropic") return frame({ type: "error", error: { type: "error", ...error } }, "error");
  if (error && provider === "openai") return frame({ type: "error", sequence_number: 0, error }, "error");
  if (error) return frame({ error });
  if (provider === "google")
    return [value]
      .flat()
      .map((each) => frame(each as object))
      .join("");
  return provider === "openai-compatible" ? framesOfCompletion(value) : undefined;
}

function framesOfCompletion(value: Json): string | undefined {
  const choice = Array.isArray(value["choices"]) ? value["choices"][0] : undefined;
  const message = isObject(choice) ? choice["message"] : undefined;
  if (!isObject(choice) || !isObject(message)) return undefined;
  const calls = Array.isArray(message["tool_calls"]) ? message["tool_calls"] : [];
  const tool_calls = calls.map((call, index) => ({ index, ...(call as object) }));
  const delta = { ...message, ...(calls.length > 0 && { tool_calls }) };
  const reason = choice["finish_reason"] ?? (calls.length > 0 ? "tool_calls" : "stop");
  return frame(chunkOf(delta, reason, countsOf(value))) + frame("[DONE]");
}
