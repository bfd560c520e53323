import { z } from "zod";
import { AppError } from "../../protocol/errors.ts";
import { isTooDeep } from "../../protocol/internal/json-depth.ts";
import { FINISH_REASONS } from "../../protocol/message.ts";
import { parseJson } from "../../shared/json.ts";
import { cleanText } from "../../shared/text.ts";
import type { ProgramItem } from "../process/program-run.ts";

const text = z.string();
const tokens = z.int().min(0).max(1_000_000_000);

/** The lines of the format `jsonl`: docs/use/agents-command.md. */
const JsonLine = z.discriminatedUnion("type", [
  z.object({ type: z.literal("text"), text }),
  z.object({ type: z.literal("reasoning"), text }),
  z.object({ type: z.literal("message"), content: text, output: text.optional() }),
  z.object({
    type: z.literal("tool-call"),
    id: text.min(1).max(256),
    name: text.min(1).max(256),
    arguments: z.record(text, z.unknown()).default({}),
  }),
  z.object({
    type: z.literal("tool-result"),
    id: text.min(1).max(256),
    name: text.min(1).max(256),
    content: text,
    status: z.enum(["success", "error"]).default("success"),
  }),
  z.object({ type: z.literal("finish"), reason: z.enum(FINISH_REASONS) }),
  z.object({ type: z.literal("usage"), input: tokens, output: tokens }),
  // These two are the supervisor's.
  z.object({ type: z.literal("data"), name: text.regex(/^(?!(?:start|exit)$).{1,256}$/s), data: z.unknown() }),
  z.object({ type: z.literal("log"), text }),
  z.object({
    type: z.literal("error"),
    code: z.enum(["provider_rate_limited", "provider_unreachable", "provider_refused"]).default("provider_unreachable"),
    message: text.min(1).max(2_048),
    retry_after: z.number().min(0).max(86_400).optional(),
  }),
]);

/**
 * Convert a line to a part; undefined for other lines, which are logged.
 * @param redact removes the values of secrets from the text of a failure; parts are as they were printed
 */
export function readJsonLine(line: string, redact: (text: string) => string): ProgramItem | undefined {
  const json = parseJson(cleanText(line));
  if (isTooDeep(json)) return undefined;
  const parsed = JsonLine.safeParse(json).data;
  return parsed && toOutcome(parsed, redact);
}

function toOutcome(line: z.infer<typeof JsonLine>, redact: (text: string) => string): ProgramItem {
  switch (line.type) {
    case "text":
    case "reasoning":
      // Unchanged, because the next line may begin with the second half of a surrogate pair.
      return { type: line.type, text: line.text };
    case "message":
      return { type: "message", content: line.content, ...(line.output !== undefined && { output: line.output }) };
    case "tool-call":
      return {
        type: "tool-call",
        call: { toolCallId: line.id, function: { name: line.name, arguments: JSON.stringify(line.arguments) } },
      };
    case "tool-result":
      return {
        type: "tool-result",
        toolCallId: line.id,
        toolName: line.name,
        content: line.content,
        status: line.status,
      };
    case "finish":
      return { type: "finish", reason: line.reason };
    case "usage": {
      const { input, output } = line;
      const usage = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
      return { type: "usage", usage };
    }
    case "data":
      return { type: "data", name: line.name, data: line.data };
    case "log":
      return { type: "log", stream: "stdout", text: line.text };
    case "error": {
      const facts = line.retry_after === undefined ? {} : { retryAfterMs: Math.round(line.retry_after * 1_000) };
      return { type: "failure", error: new AppError(line.code, redact(line.message), { facts }) };
    }
  }
}
