import { AppError } from "../../protocol/errors.ts";
import { cutText } from "../../protocol/text.ts";
import type { Approvals, RunControl, Turn } from "../agent.ts";
import { fail, type Tool, type ToolOutcome, type ToolUse } from "./tool.ts";

/** A result travels in one event and goes into a model's window: at most 48 KiB of UTF-8, below the 64 of rule C22. */
const MAX_RESULT_UNITS = 16_384;
/** Arguments travel in one event too. */
const MAX_ARGUMENT_UNITS = 16_384;
/** Calls of one agent in one turn: far more than the steps of a turn need, and a bound for a model that repeats itself. */
const MAX_CALLS = 512;

export interface ToolBoxOptions {
  readonly tools: readonly Tool[];
  readonly turn: Turn;
  readonly control: RunControl;
  readonly approvals: Approvals;
  readonly tell: ToolUse["tell"];
  /** Hears of everything that a tool throws and that is not for the user. */
  readonly onFault: (fault: unknown, toolName: string) => void;
}

/** What one agent may do in one turn. */
export class ToolBox {
  readonly #options: ToolBoxOptions;
  readonly #tools: ReadonlyMap<string, Tool>;
  #calls = 0;

  constructor(options: ToolBoxOptions) {
    this.#options = options;
    this.#tools = new Map(options.tools.map((tool) => [tool.name, tool]));
  }

  get tools(): Iterable<Tool> {
    return this.#tools.values();
  }

  /**
   * Do what a model wants done: once the run is wanted and the user agrees, within the tool's time. Rejects only when
   * the run ends; a tool that does not obey that is left alone.
   */
  async call(toolCallId: string, name: string, input: unknown): Promise<ToolOutcome> {
    const outcome = await this.#call(toolCallId, name, input);
    return { ...outcome, content: cutText(outcome.content, MAX_RESULT_UNITS) };
  }

  async #call(toolCallId: string, name: string, input: unknown): Promise<ToolOutcome> {
    const { control, approvals } = this.#options;
    const tool = this.#tools.get(name);
    if (!tool) return fail(`There is no tool ${name.slice(0, 64)}.`);
    this.#calls += 1;
    if (this.#calls > MAX_CALLS) return fail(`This is more than ${MAX_CALLS} calls in one turn.`);
    const text = JSON.stringify(input ?? {});
    if (text.length > MAX_ARGUMENT_UNITS) {
      return fail(`The arguments are longer than ${MAX_ARGUMENT_UNITS} characters.`);
    }
    await control.untilWanted();
    if (tool.isConfirmed) {
      const call = { toolCallId, function: { name, arguments: text } };
      const verdict = await approvals.ask(call, control);
      if (!verdict.isApproved) {
        return fail(verdict.reason ? `The user rejected this call: ${verdict.reason}` : "The user rejected this call.");
      }
      await control.untilWanted();
    }
    return await this.#run(tool, toolCallId, input ?? {});
  }

  async #run(tool: Tool, toolCallId: string, input: unknown): Promise<ToolOutcome> {
    const { turn, control, tell, onFault } = this.#options;
    const end = new AbortController();
    const { promise: ended, reject } = Promise.withResolvers<never>();
    const onAbort = () => end.abort(control.signal.reason);
    control.signal.addEventListener("abort", onAbort, { once: true });
    end.signal.addEventListener("abort", () => reject(end.signal.reason), { once: true });
    ended.catch(() => {});
    if (control.signal.aborted) onAbort();
    const { name, timeoutMs } = tool;
    const late =
      timeoutMs === undefined ? undefined : new AppError("unavailable", `${name} took longer than ${timeoutMs} ms.`);
    const timer = late && control.after(timeoutMs!, () => end.abort(late));
    const work = tool.run(input, { toolCallId, turn, control: controlWithin(control, end.signal), tell });
    try {
      // A sub-agent has to be left in good order, so it is waited for; anything else is not trusted to come to an end.
      return await (timeoutMs === undefined ? work : Promise.race([work, ended]));
    } catch (error) {
      work.catch(() => {});
      control.signal.throwIfAborted();
      if (error instanceof AppError && error.code !== "internal") return fail(error.message);
      onFault(error, name);
      return fail(`${name} failed.`);
    } finally {
      timer?.cancel();
      control.signal.removeEventListener("abort", onAbort);
    }
  }
}

/** The same run, for a part of it that ends earlier: with `signal`. */
export function controlWithin(control: RunControl, signal: AbortSignal): RunControl {
  const unlessEnded = <T>(start: () => Promise<T>): Promise<T> =>
    new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason);
        return;
      }
      const onAbort = () => reject(signal.reason);
      signal.addEventListener("abort", onAbort, { once: true });
      const forget = () => signal.removeEventListener("abort", onAbort);
      start().then(resolve, reject).finally(forget);
    });
  return {
    signal,
    untilWanted: () => unlessEnded(() => control.untilWanted()),
    ask: (interaction) => unlessEnded(() => control.ask(interaction)),
    sleep: (delayMs) => unlessEnded(() => control.sleep(delayMs)),
    after: control.after,
    loadImage: control.loadImage,
  };
}
