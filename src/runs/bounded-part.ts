// Rule C5 of docs/inside/correctness.md.
import type { NewInteraction, Part } from "../agents/agent.ts";
import { MAX_OPTION_UNITS, MAX_OPTIONS, MAX_QUESTION_UNITS, type ToolCall } from "../protocol/interaction.ts";
import { isTooDeep } from "../protocol/internal/json-depth.ts";
import type { Usage } from "../protocol/message.ts";
import { cleanText, cutText, textWithin, visibleJson, visibleName } from "../shared/text.ts";

/** The longest id and the longest name of a tool, of a call and of data, in UTF-16 units. */
const MAX_NAME_UNITS = 256;
/** The longest arguments, and the longest result, of a tool call. */
const MAX_ARGUMENTS_UNITS = 65_536;
const MAX_RESULT_UNITS = 65_536;
/** What is shown of arguments that are longer. */
const SHOWN_ARGUMENT_UNITS = 4_096;
/** The largest data for the page, as JSON: a report of it fits the bus, however its characters are encoded. */
const MAX_DATA_UNITS = 1_048_576;
/** The longest id of a provider's session. A longer one is not kept, because a part of an id names nothing. */
const MAX_SESSION_UNITS = 512;
/** The longest line of a log. */
const MAX_LINE_UNITS = 4_096;
/** The longest `output` of a message: as long as a message. */
const MAX_OUTPUT_UNITS = 131_072;
/** More tokens than one part can stand for. A sum of them stays a whole number that JSON can hold. */
const MAX_TOKENS = 1_000_000_000;
/** JSON with NUL or a lone surrogate, which are written as these escapes. */
const UNCLEAN = /\\u(0000|d[89a-f])/;

/**
 * A part within the limits of what is stored and sent. Agents are programs and servers of others, so a part may hold
 * anything: no text is longer than a reader expects, no value too deep to be written, no NUL and no half of a character
 * (rule C5). Data that is too large or too deep becomes a line of the log.
 * @returns the part, and how much of the run's limits it takes, in UTF-16 units
 */
export function boundPart(unbounded: Part): { part: Part; units: number } {
  const withUnits = (part: Part, units = 0) => ({ part, units });
  switch (unbounded.type) {
    case "text":
    case "reasoning":
      return withUnits(unbounded, unbounded.text.length);
    case "message": {
      const { content, output } = unbounded;
      const part = output === undefined ? unbounded : { ...unbounded, output: textWithin(output, MAX_OUTPUT_UNITS) };
      return withUnits(part, content.length + (part.output?.length ?? 0));
    }
    case "tool-call": {
      const call = boundCall(unbounded.call);
      return withUnits({ ...unbounded, call }, call.function.arguments.length);
    }
    case "tool-result": {
      const { toolCallId, toolName } = unbounded;
      const content = textWithin(unbounded.content, MAX_RESULT_UNITS);
      const names = {
        toolCallId: textWithin(toolCallId, MAX_NAME_UNITS),
        toolName: toolNameOf(toolName),
      };
      return withUnits({ ...unbounded, ...names, content }, content.length);
    }
    case "usage":
      return withUnits({ ...unbounded, usage: boundUsage(unbounded.usage) });
    case "provider-session": {
      const { id = "" } = unbounded;
      const isUsable = typeof id === "string" && id.length <= MAX_SESSION_UNITS && cleanText(id) === id;
      return withUnits(isUsable ? unbounded : { type: unbounded.type, id: undefined });
    }
    case "data":
      return boundData(unbounded);
    case "log": {
      const text = textWithin(unbounded.text, MAX_LINE_UNITS);
      return withUnits({ ...unbounded, text }, text.length);
    }
    case "finish":
    case "start":
    case "exit":
      return withUnits(unbounded);
  }
}

/** An interaction within the same limits. */
export function boundInteraction(interaction: NewInteraction): NewInteraction {
  if (interaction.kind === "confirmation") return { ...interaction, toolCall: boundCall(interaction.toolCall) };
  return {
    ...interaction,
    question: textWithin(interaction.question, MAX_QUESTION_UNITS),
    options: interaction.options.slice(0, MAX_OPTIONS).map((option) => textWithin(option, MAX_OPTION_UNITS)),
  };
}

function boundCall({ toolCallId, function: { name, arguments: argumentText } }: ToolCall): ToolCall {
  // A person decides by what they see of it.
  const text = visibleJson(cleanText(argumentText));
  const isLong = text.length > MAX_ARGUMENTS_UNITS;
  return {
    toolCallId: textWithin(toolCallId, MAX_NAME_UNITS),
    function: {
      name: toolNameOf(name),
      arguments: isLong ? JSON.stringify({ cut: cutText(text, SHOWN_ARGUMENT_UNITS) }) : text,
    },
  };
}

const toolNameOf = (name: string): string => textWithin(visibleName(cleanText(name)), MAX_NAME_UNITS) || "unnamed";

function boundUsage(usage: Usage): Usage {
  const counts = Object.entries(usage).map(([key, tokens = 0]) => [key, Math.min(tokens, MAX_TOKENS)]);
  return Object.fromEntries(counts) as Usage;
}

function boundData(part: Extract<Part, { type: "data" }>): { part: Part; units: number } {
  const { agent } = part;
  const name = textWithin(part.name, MAX_NAME_UNITS);
  const leaveOut = (fault: string) => {
    const text = `data of the name ${name} was left out: ${fault}`;
    const line: Part = { type: "log", stream: "stderr", text, ...(agent && { agent }) };
    return { part: line, units: text.length };
  };
  if (isTooDeep(part.data)) return leaveOut("it is nested too deeply");
  const json = JSON.stringify(part.data) ?? "null";
  if (json.length > MAX_DATA_UNITS) return leaveOut(`it has more than ${MAX_DATA_UNITS} characters`);
  const data = UNCLEAN.test(json) ? cleaned(part.data) : part.data;
  return { part: { ...part, name, data }, units: json.length };
}

/** The value with clean strings and keys. */
function cleaned(value: unknown): unknown {
  if (typeof value === "string") return cleanText(value);
  if (Array.isArray(value)) return value.map(cleaned);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [cleanText(key), cleaned(inner)]));
}
