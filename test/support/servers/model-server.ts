import type { ServerResponse } from "node:http";
import { SmallServer } from "./small-server.ts";

/**
 * A model provider for coding agents, in the wire formats of OpenAI's responses and chat completions. The user's
 * message selects the answer: `RUN <command>` calls the agent's shell tool once and then reports its result, `CALL
 * <tool> <JSON>` does so with a tool of the MCP server `interlock`, `LIMITED` is a 429, anything else is answered with
 * a sentence. What stands before `NEVER MIND` is ignored, because an agent may repeat a message that got no answer.
 */
export interface ModelServer {
  /** The base URL; it ends in `/v1`. */
  readonly baseUrl: string;
  /** The messages of every request, as JSON. */
  readonly requests: readonly string[];
  close(): Promise<void>;
}

export const SENTENCE = "The model says hello.";

interface Answer {
  readonly text?: string;
  readonly command?: string;
  /** A tool of Interlock, with its arguments as JSON. */
  readonly tool?: { readonly name: string; readonly input: string };
}

type Json = Record<string, unknown>;

export async function startModelServer(): Promise<ModelServer> {
  const requests: string[] = [];
  const server = await SmallServer.start((response, { url, body: text }) => {
    const body: Json = text === "" ? {} : JSON.parse(text);
    requests.push(JSON.stringify(body["input"] ?? body["messages"] ?? ""));
    if (url.endsWith("/responses")) answerResponses(body, response);
    else if (url.endsWith("/chat/completions")) answerChat(body, response);
    else response.writeHead(404).end("{}");
  });
  return { baseUrl: `${server.url}/v1`, requests, close: () => server[Symbol.asyncDispose]() };
}

/** @returns undefined for a refusal */
function answerTo(wholeMessage: string, result: string | undefined): Answer | undefined {
  const message = wholeMessage.split("NEVER MIND").at(-1)!;
  if (message.includes("LIMITED")) return undefined;
  if (result !== undefined) return { text: `The tool said: ${result}` };
  const [, name, input] = /CALL (\S+) (.+)$/m.exec(message) ?? [];
  if (name !== undefined && input !== undefined) return { tool: { name, input } };
  const command = /RUN (.+)$/m.exec(message)?.[1];
  return command === undefined ? { text: SENTENCE } : { command };
}

function refuse(response: ServerResponse): void {
  response.writeHead(429, { "content-type": "application/json", "retry-after": "1" });
  const error = { message: "Rate limit reached", type: "rate_limit_error", code: "rate_limit" };
  response.end(JSON.stringify({ error }));
}

function begin(response: ServerResponse): (event: Json) => void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  return (event) => {
    const name = typeof event["type"] === "string" ? `event: ${event["type"]}\n` : "";
    response.write(`${name}data: ${JSON.stringify(event)}\n\n`);
  };
}

/**
 * The user's text since the model's last message, including the agent's additions, followed by the result of a tool.
 */
function readItems(items: readonly Json[], isResult: (item: Json) => boolean): [string, string | undefined] {
  const last = items.findLastIndex(({ role }) => role === "user");
  const isModels = ({ role, type }: Json) =>
    role === "assistant" || role === "tool" || type === "function_call" || type === "function_call_output";
  const before = items.slice(0, last + 1).findLastIndex(isModels);
  const said = items.slice(before + 1, last + 1).filter(({ role }) => role === "user");
  const result = items.slice(last + 1).findLast(isResult);
  const output = result && (result["output"] ?? result["content"]);
  return [said.map(({ content }) => textOf(content)).join("\n"), result && textOf(output)];
}

function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (Array.isArray(content)) return content.map((part: Json) => String(part["text"] ?? "")).join("\n");
  return JSON.stringify(content ?? "");
}

function answerResponses(body: Json, response: ServerResponse): void {
  const items = (body["input"] ?? []) as Json[];
  const isTitle = !Array.isArray(body["tools"]) || body["tools"].length === 0;
  const [message, result] = readItems(items, (item) => item["type"] === "function_call_output");
  const answer = isTitle ? { text: "A title" } : answerTo(message, result);
  if (!answer) return refuse(response);
  const send = begin(response);
  const id = `resp_${Math.trunc(performance.now() * 1_000)}`;
  send({ type: "response.created", response: { id } });
  if (answer.text !== undefined) {
    const { text } = answer;
    const item = { type: "message", role: "assistant", id: `msg_${id}`, content: [{ type: "output_text", text }] };
    const place = { item_id: item.id, output_index: 0, content_index: 0 };
    send({ type: "response.output_item.added", output_index: 0, item: { ...item, content: [] } });
    send({ type: "response.output_text.delta", ...place, delta: text });
    send({ type: "response.output_item.done", output_index: 0, item });
  } else {
    const args = { cmd: answer.command, sandbox_permissions: "require_escalated", justification: "The user wants it." };
    const call = answer.tool
      ? { namespace: "mcp__interlock", name: answer.tool.name, arguments: answer.tool.input }
      : { name: "exec_command", arguments: JSON.stringify(args) };
    const item = { type: "function_call", id: `fc_${id}`, call_id: `call_${id}`, ...call };
    send({ type: "response.output_item.done", output_index: 0, item });
  }
  const usage = { input_tokens: 11, output_tokens: 7, total_tokens: 18, input_tokens_details: { cached_tokens: 0 } };
  send({ type: "response.completed", response: { id, usage } });
  response.end();
}

function answerChat(body: Json, response: ServerResponse): void {
  const [message, result] = readItems((body["messages"] ?? []) as Json[], (item) => item["role"] === "tool");
  const answer = answerTo(message, result);
  if (!answer) return refuse(response);
  const tools = (body["tools"] ?? []) as { function?: { name?: string } }[];
  const shell = tools.map((tool) => tool.function?.name ?? "").find((name) => /^(shell|bash)$/i.test(name)) ?? "Bash";
  const id = `chatcmpl_${Math.trunc(performance.now() * 1_000)}`;
  const send = begin(response);
  const common = { id, object: "chat.completion.chunk", created: 1, model: "fake" };
  const chunk = (delta: Json, finish: string | null = null) =>
    send({ ...common, choices: [{ index: 0, delta, finish_reason: finish }] });
  chunk({ role: "assistant", content: "" });
  if (answer.text !== undefined) {
    chunk({ content: answer.text });
    chunk({}, "stop");
  } else {
    const call = answer.tool
      ? { name: `mcp__interlock__${answer.tool.name}`, arguments: answer.tool.input }
      : { name: shell, arguments: JSON.stringify({ command: answer.command }) };
    chunk({ tool_calls: [{ index: 0, id: `call_${id}`, type: "function", function: call }] });
    chunk({}, "tool_calls");
  }
  send({ ...common, choices: [], usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 } });
  response.end("data: [DONE]\n\n");
}
