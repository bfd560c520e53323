import { AppError } from "../../protocol/errors.ts";
import { abortAfter } from "../../shared/abort-after.ts";
import { textWithin } from "../../shared/text.ts";
import { raceAborted } from "../../shared/waiting.ts";
import type { Approvals, RunControl, Turn } from "../agent.ts";
import { fail, type Tool, type ToolInput, type ToolOutcome } from "./tool.ts";

/**
 * The longest result, in UTF-16 units: it fits one event and a model's window, with at most 48 KiB of UTF-8 (rule C22
 * allows 64).
 */
const MAX_RESULT_UNITS = 16_384;
/** The longest arguments, which fit one event too. */
const MAX_ARGUMENT_UNITS = 16_384;
/**
 * The maximum number of calls of one agent in one turn: more than a turn needs, to stop a model that repeats itself.
 */
const MAX_CALLS = 512;

export interface ToolBoxOptions {
  readonly tools: readonly Tool[];
  readonly turn: Turn;
  readonly control: RunControl;
  readonly approvals: Approvals;
  readonly emit: ToolInput["emit"];
  /** Called with errors of tools that are not shown to the user. */
  readonly onFault: (fault: unknown, toolName: string) => void;
}

/** The tools of one agent in one turn. */
export class ToolBox {
  readonly #options: ToolBoxOptions;
  readonly #tools: ReadonlyMap<string, Tool>;
  #calls = 0;

  constructor(options: ToolBoxOptions) {
    this.#options = options;
    this.#tools = new Map(options.tools.map((tool) => [tool.name, tool]));
    // The last of them would take the calls and the approvals of the others.
    if (this.#tools.size < options.tools.length) throw new Error("two tools of an agent have the same name");
  }

  get tools(): Iterable<Tool> {
    return this.#tools.values();
  }

  /**
   * Execute a call of a model, after the run may continue and the user agrees, within the tool's timeout. Rejects only
   * when the run ends, or `givenUp` aborts because the answer is no longer wanted. A tool that ignores its signal is
   * not awaited.
   */
  async call(toolCallId: string, name: string, input: unknown, givenUp?: AbortSignal): Promise<ToolOutcome> {
    const { control } = this.#options;
    const outcome = await this.#call(toolCallId, name, input, givenUp ? controlWithin(control, givenUp) : control);
    return { ...outcome, content: textWithin(outcome.content, MAX_RESULT_UNITS) };
  }

  async #call(toolCallId: string, name: string, input: unknown, control: RunControl): Promise<ToolOutcome> {
    const { approvals } = this.#options;
    const tool = this.#tools.get(name);
    if (!tool) return fail(`There is no tool ${name.slice(0, 64)}.`);
    this.#calls += 1;
    if (this.#calls > MAX_CALLS) return fail(`The turn has reached its limit of ${MAX_CALLS} tool calls.`);
    const limit = this.#options.turn.tree?.budget.countCall();
    if (limit !== undefined) return fail(limit);
    const text = JSON.stringify(input ?? {});
    if (text.length > MAX_ARGUMENT_UNITS) {
      return fail(`The arguments are longer than ${MAX_ARGUMENT_UNITS} characters.`);
    }
    await control.untilMayAct();
    if (tool.isConfirmed) {
      const toolCall = { toolCallId, function: { name, arguments: text } };
      const verdict = await approvals.askUser({ toolCall, isSensitive: true }, control);
      if (!verdict.isApproved) {
        return fail(verdict.reason ? `The user rejected this call: ${verdict.reason}` : "The user rejected this call.");
      }
      await control.untilMayAct();
    }
    return await this.#run(tool, toolCallId, input ?? {}, control);
  }

  async #run(tool: Tool, toolCallId: string, input: unknown, control: RunControl): Promise<ToolOutcome> {
    const { turn, emit, onFault } = this.#options;
    const { name, timeoutMs } = tool;
    const late = () => new AppError("unavailable", `${name} took longer than ${timeoutMs} ms.`);
    using limit = abortAfter(control, timeoutMs, late, control.signal);
    const { signal } = limit;
    const work = tool.run(input, { toolCallId, turn, control: controlWithin(control, signal), emit });
    try {
      // Wait for a sub-agent, so that it ends properly. Other tools are not awaited, because they may never end.
      return await (timeoutMs === undefined ? work : raceAborted(signal, () => work));
    } catch (error) {
      work.catch(() => {});
      control.signal.throwIfAborted();
      if (error instanceof AppError && error.code !== "internal") return fail(error.message);
      onFault(error, name);
      return fail(`${name} failed.`);
    }
  }
}

/** The control of the same run for a part that ends earlier, by `signal`. */
export function controlWithin(control: RunControl, signal: AbortSignal): RunControl {
  return {
    signal,
    untilMayAct: () => raceAborted(signal, () => control.untilMayAct()),
    askUser: (interaction, withdrawn) =>
      raceAborted(signal, () =>
        control.askUser(interaction, withdrawn ? AbortSignal.any([signal, withdrawn]) : signal),
      ),
    sleep: (delayMs, failure) => raceAborted(signal, () => control.sleep(delayMs, failure)),
    after: control.after,
    loadImage: control.loadImage,
  };
}
