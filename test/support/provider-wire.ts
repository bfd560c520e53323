/** The streamed answers of three kinds of model provider, frame by frame, as they stand on the wire. */

/** Tokens as a test states them: `input` counts the cached ones too. */
export interface TokenCounts {
  readonly input: number;
  readonly output: number;
  readonly cacheRead?: number;
  readonly cacheWrite?: number;
}

export interface WireError {
  /** The provider's own word for it, such as `overloaded_error` or `rate_limit_exceeded`. */
  readonly type: string;
  readonly message: string;
}

export interface Wire {
  /** Where this provider's clients post to, under the base URL. */
  readonly path: string;
  open(): string;
  reasoning(deltas: readonly string[]): string;
  text(deltas: readonly string[]): string;
  /** The end of a whole answer; `isFiltered` where the provider's own filter ended it. */
  close(usage: TokenCounts, isFiltered: boolean): string;
  /** An error in a stream that began with status 200. */
  error(error: WireError): string;
  /** The body of an answer whose status says that it failed. */
  refusal(error: WireError): unknown;
}

const named = (type: string, data: object = {}) => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
const unnamed = (data: object) => `data: ${JSON.stringify(data)}\n\n`;

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
    return outputItem(1, { type: "message", id: "msg_1" }, frames);
  },
  close({ input, output, cacheRead = 0 }, isFiltered) {
    const usage = {
      input_tokens: input,
      input_tokens_details: { cached_tokens: cacheRead },
      output_tokens: output,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: input + output,
    };
    return isFiltered
      ? named("response.incomplete", { response: { usage, incomplete_details: { reason: "content_filter" } } })
      : named("response.completed", { response: { usage } });
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
  reasoning: (deltas) => deltas.map((delta) => chunk({ reasoning_content: delta })).join(""),
  text: (deltas) => deltas.map((delta) => chunk({ content: delta })).join(""),
  close({ input, output, cacheRead = 0 }, isFiltered) {
    const usage = {
      prompt_tokens: input,
      completion_tokens: output,
      total_tokens: input + output,
      prompt_tokens_details: { cached_tokens: cacheRead },
    };
    return chunk({}, isFiltered ? "content_filter" : "stop") + unnamed({ ...CHUNK, choices: [], usage }) + DONE;
  },
  error: ({ type, message }) => unnamed({ error: { type, message } }),
  refusal: ({ type, message }) => ({ error: { type, message } }),
};

const DONE = "data: [DONE]\n\n";
const CHUNK = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "model" };

function chunk(delta: Record<string, string>, finish_reason: string | null = null): string {
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
  reasoning: (deltas) =>
    contentBlock(
      0,
      { type: "thinking", thinking: "", signature: "" },
      deltas.map((thinking) => ({ type: "thinking_delta", thinking })),
    ),
  text: (deltas) =>
    contentBlock(
      1,
      { type: "text", text: "" },
      deltas.map((text) => ({ type: "text_delta", text })),
    ),
  close({ input, output, cacheRead = 0, cacheWrite = 0 }, isFiltered) {
    const usage = {
      input_tokens: input - cacheRead - cacheWrite,
      output_tokens: output,
      cache_read_input_tokens: cacheRead,
      cache_creation_input_tokens: cacheWrite,
    };
    const delta = { stop_reason: isFiltered ? "refusal" : "end_turn", stop_sequence: null };
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

export const WIRES = { openai: responses, "openai-compatible": completions, anthropic: messages } as const;
