/** The streamed answers of four model providers, frame by frame, as on the wire. */

/** Tokens as a test states them: `input` includes the cached ones. */
export interface TokenCounts {
  readonly input: number;
  readonly output: number;
  readonly cacheRead?: number;
  readonly cacheWrite?: number;
}

export interface WireError {
  /** The provider's own name for it, such as `overloaded_error` or `rate_limit_exceeded`. */
  readonly type: string;
  readonly message: string;
}

/** The end of an answer: complete, the provider's filter, or the model's length limit. */
export type WireEnding = "whole" | "calls" | "filtered" | "length";

/** A tool call by a model. */
export interface WireCall {
  readonly id: string;
  readonly name: string;
  /** The group of the tool, which the Responses API tells separately. */
  readonly namespace?: string;
  /** JSON text; not always well-formed. */
  readonly arguments: string;
}

export interface Wire {
  /** The path to which this provider's clients post, below the base URL. */
  readonly path: string;
  open(): string;
  reasoning(deltas: readonly string[]): string;
  text(deltas: readonly string[]): string;
  calls(calls: readonly WireCall[]): string;
  /** The regular end of an answer. */
  close(usage: TokenCounts, ending: WireEnding): string;
  /** An error in a stream that began with status 200. */
  error(error: WireError): string;
  /** The body of an answer with an error status. */
  refusal(error: WireError): unknown;
}

const named = (type: string, data: object = {}) => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
const unnamed = (data: object) => `data: ${JSON.stringify(data)}\n\n`;
const joined = <T>(all: readonly T[], frameOf: (each: T, index: number) => string) => all.map(frameOf).join("");

/** Provider `openai`: the Responses API. */
const responses: Wire = {
  path: "/responses",
  open() {
    const response = { id: "resp_1", object: "response", created_at: 1, model: "model", status: "in_progress" };
    return named("response.created", { response }) + named("response.in_progress", { response });
  },
  reasoning(deltas) {
    const place = { item_id: "rs_1", summary_index: 0 };
    const summary = deltas.map((delta) => named("response.reasoning_summary_text.delta", { ...place, delta }));
    return outputItem(0, { type: "reasoning", id: "rs_1", summary: [] }, [
      named("response.reasoning_summary_part.added", place),
      ...summary,
      named("response.reasoning_summary_part.done", place),
    ]);
  },
  text(deltas) {
    const place = { item_id: "msg_1", output_index: 1 };
    const frames = deltas.map((delta) => named("response.output_text.delta", { ...place, delta }));
    const content = [{ type: "output_text", text: deltas.join("") }];
    return outputItem(1, { type: "message", id: "msg_1", role: "assistant", content }, frames);
  },
  calls: (calls) =>
    joined(calls, ({ id, arguments: text, ...rest }, index) => {
      const item = { type: "function_call", id: `fc_${id}`, call_id: id, ...rest };
      const output_index = 2 + index;
      return [
        named("response.output_item.added", { output_index, item: { ...item, arguments: "" } }),
        named("response.function_call_arguments.delta", { item_id: item.id, output_index, delta: text }),
        named("response.function_call_arguments.done", { item_id: item.id, output_index, arguments: text }),
        named("response.output_item.done", { output_index, item: { ...item, arguments: text, status: "completed" } }),
      ].join("");
    }),
  close({ input, output, cacheRead = 0 }, ending) {
    const usage = {
      input_tokens: input,
      input_tokens_details: { cached_tokens: cacheRead },
      output_tokens: output,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: input + output,
    };
    const isWhole = ending === "whole" || ending === "calls";
    if (isWhole) return named("response.completed", { response: { id: "resp_1", usage } });
    const reason = ending === "filtered" ? "content_filter" : "max_output_tokens";
    return named("response.incomplete", { response: { usage, incomplete_details: { reason } } });
  },
  error: ({ type, message }) =>
    named("error", { sequence_number: 9, error: { type, code: type, message, param: null } }),
  refusal: ({ type, message }) => ({ error: { type, code: type, message, param: null } }),
};

function outputItem(output_index: number, item: object, frames: readonly string[]): string {
  const added = named("response.output_item.added", { output_index, item });
  return [added, ...frames, named("response.output_item.done", { output_index, item })].join("");
}

/** Provider `openai-compatible`: chat completions. */
const completions: Wire = {
  path: "/chat/completions",
  open: () => chunk({ role: "assistant", content: "" }),
  reasoning: (deltas) => joined(deltas, (delta) => chunk({ reasoning_content: delta })),
  text: (deltas) => joined(deltas, (delta) => chunk({ content: delta })),
  calls: (calls) =>
    joined(calls, ({ id, name, arguments: text }, index) =>
      chunk({ tool_calls: [{ index, id, type: "function", function: { name, arguments: text } }] }),
    ),
  close({ input, output, cacheRead = 0 }, ending) {
    const usage = {
      prompt_tokens: input,
      completion_tokens: output,
      total_tokens: input + output,
      prompt_tokens_details: { cached_tokens: cacheRead },
    };
    const reason = { whole: "stop", calls: "tool_calls", filtered: "content_filter", length: "length" }[ending];
    return chunk({}, reason) + unnamed({ ...CHUNK, choices: [], usage }) + DONE;
  },
  error: ({ type, message }) => unnamed({ error: { type, message } }),
  refusal: ({ type, message }) => ({ error: { type, message } }),
};

const DONE = "data: [DONE]\n\n";
const CHUNK = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "model" };

function chunk(delta: Record<string, unknown>, finish_reason: string | null = null): string {
  return unnamed({ ...CHUNK, choices: [{ index: 0, delta, finish_reason }] });
}

/** Provider `anthropic`: messages. */
const messages: Wire = {
  path: "/messages",
  open() {
    const usage = { input_tokens: 1, output_tokens: 1 };
    const message = { id: "msg_1", type: "message", role: "assistant", content: [], model: "model", usage };
    return named("message_start", { message });
  },
  reasoning(deltas) {
    const thoughts = deltas.map((thinking) => ({ type: "thinking_delta", thinking }));
    return contentBlock(0, { type: "thinking", thinking: "", signature: "" }, thoughts);
  },
  text(deltas) {
    const texts = deltas.map((text) => ({ type: "text_delta", text }));
    return contentBlock(1, { type: "text", text: "" }, texts);
  },
  calls: (calls) =>
    joined(calls, ({ id, name, arguments: text }, index) => {
      const input = { type: "input_json_delta", partial_json: text };
      return contentBlock(2 + index, { type: "tool_use", id, name, input: {} }, [input]);
    }),
  close({ input, output, cacheRead = 0, cacheWrite = 0 }, ending) {
    const usage = {
      input_tokens: input - cacheRead - cacheWrite,
      output_tokens: output,
      cache_read_input_tokens: cacheRead,
      cache_creation_input_tokens: cacheWrite,
    };
    const reasons = { whole: "end_turn", calls: "tool_use", filtered: "refusal", length: "max_tokens" };
    const delta = { stop_reason: reasons[ending], stop_sequence: null };
    return named("message_delta", { delta, usage }) + named("message_stop");
  },
  error: (error) => named("error", { error }),
  refusal: (error) => ({ type: "error", error }),
};

function contentBlock(index: number, content_block: object, deltas: readonly object[]): string {
  const start = named("content_block_start", { index, content_block });
  const frames = deltas.map((delta) => named("content_block_delta", { index, delta }));
  return [start, ...frames, named("content_block_stop", { index })].join("");
}

/** Provider `google`: streamed content of Gemini. */
const contents: Wire = {
  path: ":streamGenerateContent?alt=sse",
  open: () => "",
  reasoning: (deltas) => joined(deltas, (text) => candidate([{ text, thought: true }])),
  text: (deltas) => joined(deltas, (text) => candidate([{ text }])),
  calls: (calls) =>
    joined(calls, ({ id, name, arguments: text }) =>
      candidate([{ functionCall: { id, name, args: JSON.parse(text) } }]),
    ),
  close({ input, output, cacheRead = 0 }, ending) {
    const usageMetadata = {
      promptTokenCount: input,
      candidatesTokenCount: output,
      totalTokenCount: input + output,
      cachedContentTokenCount: cacheRead,
    };
    const finishReason = { whole: "STOP", calls: "STOP", filtered: "SAFETY", length: "MAX_TOKENS" }[ending];
    return unnamed({ candidates: [{ index: 0, content: { role: "model", parts: [] }, finishReason }], usageMetadata });
  },
  error: ({ type, message }) =>
    unnamed({ error: { code: type.startsWith("rate_limit") ? 429 : 500, status: type.toUpperCase(), message } }),
  refusal: ({ type, message }) => ({ error: { code: 400, status: type.toUpperCase(), message } }),
};

function candidate(parts: readonly object[]): string {
  return unnamed({ candidates: [{ index: 0, content: { role: "model", parts } }] });
}

export const WIRES = {
  openai: responses,
  "openai-compatible": completions,
  anthropic: messages,
  google: contents,
} as const;
