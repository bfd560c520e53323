import type { ScriptedAdapter, ScriptedReply } from "../config/catalog/adapter.ts";
import type { AgentEntry } from "../config/catalog/catalog.ts";
import { isMatch } from "../config/catalog/pattern.ts";
import { AppError } from "../protocol/errors.ts";
import type { Answer, ToolCall } from "../protocol/interaction.ts";
import { cleanText, cutText } from "../shared/text.ts";
import type { Agent, Part, RunControl, Turn } from "./agent.ts";
import { type Delegate, SUB_AGENT_TOOL, treeOf } from "./sub-agent.ts";
import { makeToolCallId } from "./tool-call-id.ts";

/**
 * The part of a message that patterns are matched against, in UTF-16 units: a catalogue may have a thousand patterns.
 */
const MAX_MATCHED_UNITS = 1_024;
/** The longest streamed piece of an echo, in UTF-16 units. */
const MAX_PIECE_UNITS = 4_096;

/** The values of `{answer}` and `{result}` in a rule's texts. */
interface Findings {
  readonly answer: string;
  readonly result: string;
}

interface Script {
  readonly entry: AgentEntry;
  readonly turn: Turn;
  readonly control: RunControl;
  readonly delegate: Delegate;
}

/**
 * An agent that answers by rules. It plays the first rule whose pattern matches the user's message, in the order fail,
 * ask, confirm, delegate, say. If the user cancels or rejects, or the sub-agent has no result, it says `otherwise`
 * instead and stops. Without a matching rule it echoes the message.
 */
export function createScriptedAgent(entry: AgentEntry, adapter: ScriptedAdapter, delegate: Delegate): Agent {
  const { replies, yields, restartable } = adapter;
  return {
    id: entry.id,
    yields,
    restartable,
    async *run(turn: Turn, control: RunControl): AsyncGenerator<Part> {
      control.signal.throwIfAborted();
      const rule = ruleFor(turn.input.content, replies);
      if (!rule) {
        yield* say(cutInPieces(`You said: ${turn.input.content}`), 0, control);
        return;
      }
      failIfDue(rule, turn, replies);
      const findings = yield* act(rule, { entry, turn, control, delegate });
      const words = findings ? fillIn(repeat(rule.say ?? [], rule.repeat), findings) : (rule.otherwise ?? []);
      yield* say(words, rule.delay, control);
      if (rule.usage) {
        const { input, output } = rule.usage;
        const usage = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
        yield { type: "usage", usage };
      }
    },
  };
}

/** The steps before `say`. Undefined if the user or the sub-agent declined. */
async function* act(rule: ScriptedReply, script: Script): AsyncGenerator<Part, Findings | undefined> {
  const answer = rule.ask ? await askUser(rule.ask, script) : "";
  if (answer === undefined) return undefined;
  if (rule.confirm && !(yield* confirm(rule.confirm, script))) return undefined;
  const result = rule.delegate ? yield* handOver(rule.delegate, script) : "";
  return result === undefined ? undefined : { answer, result };
}

function ruleFor(message: string, replies: readonly ScriptedReply[]): ScriptedReply | undefined {
  const text = cutText(message, MAX_MATCHED_UNITS);
  return replies.find(({ match }) => match === undefined || isMatch(match, text));
}

/**
 * Fail for the first `times` messages of a session that match the rule. The count comes from the history, so that every
 * worker counts the same. A sub-agent has no history, so its rule always fails.
 */
function failIfDue(rule: ScriptedReply, { input, history }: Turn, replies: readonly ScriptedReply[]): void {
  if (!rule.fail) return;
  const earlier = history.filter(
    ({ id, role, content }) => role === "user" && id !== input.id && ruleFor(content, replies) === rule,
  );
  if (earlier.length < rule.fail.times) throw new AppError(rule.fail.code, rule.fail.message);
}

async function askUser(
  { question, options, multi_select }: NonNullable<ScriptedReply["ask"]>,
  { control }: Script,
): Promise<string | undefined> {
  const answer = await control.askUser({ kind: "question", question, options, multiSelect: multi_select });
  mustAnswer(answer, "question");
  if (answer.cancelled) return undefined;
  return answer.selected.length > 0 ? answer.selected.join(", ") : (answer.customInput ?? "");
}

async function* confirm(action: NonNullable<ScriptedReply["confirm"]>, script: Script): AsyncGenerator<Part, boolean> {
  const { entry, control, turn } = script;
  const call = toolCall("confirm", action.tool, action.arguments, script);
  yield { type: "tool-call", call };
  const { approvals } = treeOf(entry, turn);
  if (approvals.has(action.tool)) {
    yield toolResult(call, "Approved for the session.", true);
    return true;
  }
  const verdict = await approvals.askUser({ toolCall: call, isSensitive: action.sensitive }, control);
  const rejected = !verdict.isApproved && verdict.reason ? `Rejected: ${verdict.reason}` : "Rejected.";
  yield toolResult(call, verdict.isApproved ? "Approved." : rejected, verdict.isApproved);
  return verdict.isApproved;
}

async function* handOver(
  task: NonNullable<ScriptedReply["delegate"]>,
  script: Script,
): AsyncGenerator<Part, string | undefined> {
  const call = toolCall("delegate", SUB_AGENT_TOOL, task, script);
  yield { type: "tool-call", call };
  const outcome = yield* script.delegate({ ...task, toolCallId: call.toolCallId }, script.turn, script.control);
  yield toolResult(call, JSON.stringify(outcome), outcome.ok);
  return outcome.ok ? outcome.result : undefined;
}

/** A tool call whose id is unique, and the same whenever this attempt is played. */
function toolCall(
  act: "confirm" | "delegate",
  name: string,
  args: Readonly<Record<string, unknown>>,
  { entry, turn }: Script,
): ToolCall {
  const id = makeToolCallId(turn.runId, turn.attempt, turn.input.id, entry.id, act);
  return { toolCallId: id, function: { name, arguments: JSON.stringify(args) } };
}

function toolResult({ toolCallId, function: { name } }: ToolCall, content: string, isSuccess: boolean): Part {
  return { type: "tool-result", toolCallId, toolName: name, content, status: isSuccess ? "success" : "error" };
}

function mustAnswer<Kind extends Answer["kind"]>(
  answer: Answer,
  kind: Kind,
): asserts answer is Extract<Answer, { kind: Kind }> {
  if (answer.kind !== kind) throw new Error(`a ${kind} was answered with a ${answer.kind}`);
}

/** One part for each text, with `delayMs` between them. */
async function* say(texts: Iterable<string>, delayMs: number, control: RunControl): AsyncGenerator<Part> {
  let isFirst = true;
  for (const text of texts) {
    if (!isFirst) await control.sleep(delayMs);
    control.signal.throwIfAborted();
    isFirst = false;
    yield { type: "text", text: cleanText(text) };
  }
}

function* repeat(words: readonly string[], times: number): Generator<string> {
  for (let round = 0; round < times; round += 1) yield* words;
}

/** Replaces both placeholders in one pass, so that an answer containing `{result}` stays as the user wrote it. */
function* fillIn(words: Iterable<string>, findings: Findings): Generator<string> {
  for (const text of words) {
    const filled = text.replace(/\{(answer|result)\}/g, (_, name: keyof Findings) => findings[name]);
    if (filled !== "") yield filled;
  }
}

function* cutInPieces(text: string): Generator<string> {
  for (let rest = text; rest !== ""; ) {
    const piece = cutText(rest, MAX_PIECE_UNITS);
    yield piece;
    rest = rest.slice(piece.length);
  }
}
