import type { AgentEntry } from "../../config/catalog/catalog.ts";
import { isTooDeep } from "../../protocol/internal/json-depth.ts";
import { cutText } from "../../shared/text.ts";
import type { CallTree, Part, RunControl, ToolServer, Turn } from "../agent.ts";
import type { ProgramRun } from "../process/program-run.ts";
import { makeToolCallId } from "../tool-call-id.ts";
import { fail } from "../tools/tool.ts";
import { controlWithin, ToolBox } from "../tools/tool-box.ts";
import type { Serving, ToolServers } from "../tools/tool-server.ts";
import { openTools, type ToolSet, type ToolSource } from "../tools/tool-set.ts";

/** The longest arguments in the log, in UTF-16 units. */
const MAX_SHOWN_UNITS = 16_384;

export interface ToolsOfRunOptions {
  readonly entry: AgentEntry;
  readonly turn: Turn & { readonly tree: CallTree };
  readonly control: RunControl;
  readonly run: ProgramRun;
  readonly onFault: (fault: unknown, toolName: string) => void;
}

/**
 * Interlock's tools for a coding agent's run. They are served to its program during the run, under the same rules as
 * for models. The log shows each call under an id of Interlock, so that sub-agents have their place in the tree.
 */
export class ToolsOfRun {
  readonly #options: ToolsOfRunOptions;
  readonly #end = new AbortController();
  #set: ToolSet | undefined;
  #serving: Serving | undefined;
  #closing: Promise<void> | undefined;
  #calls = 0;
  #open = 0;

  constructor(options: ToolsOfRunOptions) {
    this.#options = options;
  }

  /** The address of the tools; undefined before `open`, and for an agent without tools. */
  get server(): ToolServer | undefined {
    return this.#serving;
  }

  /** Whether a tool is running, so that silence of the program is expected. */
  get isBusy(): boolean {
    return this.#open > 0;
  }

  async open(source: ToolSource, servers: ToolServers): Promise<void> {
    const { entry, turn, control, run, onFault } = this.#options;
    this.#set = await openTools(entry, source, this.#end.signal);
    for (const problem of this.#set.problems) this.#emit(problem);
    const box = new ToolBox({
      tools: this.#set.tools,
      turn,
      control: controlWithin(control, this.#end.signal),
      approvals: turn.tree.approvals,
      emit: async (part) => {
        this.#emit(part);
        await run.items.consumed();
      },
      onFault,
    });
    this.#serving = await servers.serve({
      tools: box.tools,
      call: (name, input, givenUp) => this.#call(box, givenUp, name, input),
    });
    if (!this.#end.signal.aborted) return;
    this.#serving.close();
    this.#end.signal.throwIfAborted();
  }

  /** End all running tools. May be called again. */
  async close(): Promise<void> {
    this.#closing ??= this.#close();
    await this.#closing;
  }

  async #close(): Promise<void> {
    this.#end.abort(new Error("The run has ended."));
    this.#serving?.close();
    await this.#set?.close();
  }

  /** @param givenUp aborts when the program has closed the connection of the call: its answer is not sent */
  async #call(box: ToolBox, givenUp: AbortSignal, name: string, input: unknown) {
    if (isTooDeep(input)) return fail("The arguments are nested too deeply.");
    const toolCallId = this.#nextId(name);
    const text = cutText(JSON.stringify(input ?? {}), MAX_SHOWN_UNITS);
    this.#emit({ type: "tool-call", call: { toolCallId, function: { name: cutText(name, 256), arguments: text } } });
    this.#open += 1;
    try {
      // Without this, the user would be asked about a call that is not in the log, or the call would begin.
      await this.#options.run.items.consumed();
      const outcome = await box.call(toolCallId, name, input, givenUp).catch((error: unknown) => {
        this.#end.signal.throwIfAborted();
        if (givenUp.aborted) return fail("The agent has given up this call.");
        throw error;
      });
      const status = outcome.isError ? "error" : "success";
      this.#emit({ type: "tool-result", toolCallId, toolName: name, content: outcome.content, status });
      return outcome;
    } finally {
      this.#open -= 1;
    }
  }

  /** Unique among the calls of the run, and different from the program's own ids. */
  #nextId(name: string): string {
    const { runId, attempt } = this.#options.turn;
    return makeToolCallId(runId, attempt, "served", this.#calls++, name);
  }

  #emit(part: Part): void {
    this.#options.run.emit(part);
    this.#options.run.noteSign();
  }
}
