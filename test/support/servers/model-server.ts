import { type ProviderReply, startProviderServer } from "./provider-server.ts";

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

type Json = Record<string, unknown>;
type Call = NonNullable<Extract<ProviderReply, { kind: "stream" }>["calls"]>[number];
/** How an agent calls its shell, and a tool of Interlock with JSON. */
interface Tools {
  shell(command: string): Omit<Call, "id">;
  interlock(name: string, input: string): Omit<Call, "id">;
}

export async function startModelServer(): Promise<ModelServer> {
  const requests: string[] = [];
  const { baseUrl, replyBy, close } = await startProviderServer();
  replyBy(({ path, body: text }) => {
    const body: Json = text === "" ? {} : JSON.parse(text);
    const items = (body["input"] ?? body["messages"] ?? []) as Json[];
    const tools = (body["tools"] ?? []) as { function?: { name?: string } }[];
    requests.push(JSON.stringify(items));
    if (path.endsWith("/chat/completions")) return answerTo(items, inChat(tools), requests.length);
    // Codex asks for the title of a conversation without tools.
    return tools.length === 0 ? says("A title") : answerTo(items, IN_RESPONSES, requests.length);
  });
  return { baseUrl, requests, close };
}

const IN_RESPONSES: Tools = {
  shell(cmd) {
    const escalated = { sandbox_permissions: "require_escalated", justification: "The user wants it." };
    return { name: "exec_command", arguments: JSON.stringify({ cmd, ...escalated }) };
  },
  interlock: (name, input) => ({ namespace: "mcp__interlock", name, arguments: input }),
};

const inChat = (tools: readonly { function?: { name?: string } }[]): Tools => ({
  shell(command) {
    const names = tools.map((tool) => tool.function?.name ?? "");
    const name = names.find((each) => /^(shell|bash)$/i.test(each)) ?? "Bash";
    return { name, arguments: JSON.stringify({ command }) };
  },
  interlock: (name, input) => ({ name: `mcp__interlock__${name}`, arguments: input }),
});

const usage = { input: 11, output: 7 };
const says = (text: string): ProviderReply => ({ kind: "stream", text: [text], usage });

function answerTo(items: readonly Json[], { shell, interlock }: Tools, count: number): ProviderReply {
  const [wholeMessage, result] = readItems(items);
  const message = wholeMessage.split("NEVER MIND").at(-1)!;
  const error = { message: "Rate limit reached", type: "rate_limit_error" };
  if (message.includes("LIMITED")) return { kind: "refusal", status: 429, headers: { "retry-after": "1" }, error };
  if (result !== undefined) return says(`The tool said: ${result}`);
  const [, name, input] = /CALL (\S+) (.+)$/m.exec(message) ?? [];
  const command = /RUN (.+)$/m.exec(message)?.[1];
  if (name === undefined && command === undefined) return says(SENTENCE);
  const call = name === undefined ? shell(command!) : interlock(name, input!);
  return { kind: "stream", calls: [{ id: `c${count}`, ...call }], usage };
}

/**
 * The user's text since the model's last message, including the agent's additions, followed by the result of a tool.
 */
function readItems(items: readonly Json[]): [string, string | undefined] {
  const isResult = ({ role, type }: Json) => role === "tool" || type === "function_call_output";
  const isModels = (item: Json) => item["role"] === "assistant" || item["type"] === "function_call" || isResult(item);
  const last = items.findLastIndex(({ role }) => role === "user");
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
