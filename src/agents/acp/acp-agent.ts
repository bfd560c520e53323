import { randomBytes } from "node:crypto";
import type { AcpAdapter } from "../../config/catalog/adapter.ts";
import { type AgentEntry, inMode } from "../../config/catalog/catalog.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { Agent, Part, RunControl, Turn } from "../agent.ts";
import { ProgramRun, type ProgramTools, startPartOf } from "../process/program-run.ts";
import { treeOf } from "../sub-agent.ts";
import type { ToolServers } from "../tools/tool-server.ts";
import { hasTools, type ToolSource } from "../tools/tool-set.ts";
import { AcpTurn } from "./acp-turn.ts";
import { PROFILES, programOf } from "./profiles.ts";
import { ToolsOfRun } from "./tools-of-run.ts";

interface AcpOptions {
  readonly programs: () => ProgramTools;
  readonly tools: ToolSource;
  /** Serves the tools of runs to programs of this node. */
  readonly toolServers: ToolServers;
  /** Called with the errors of tools that are not shown to the user. */
  readonly onFault: (fault: unknown, agentId: AgentId, turn: Turn, toolName?: string) => void;
}

/** An agent that is a program with the Agent Client Protocol; one process per run. */
export function createAcpAgent(
  entry: AgentEntry,
  adapter: AcpAdapter,
  { programs: tools, tools: source, toolServers, onFault }: AcpOptions,
): Agent {
  const times = { startMs: adapter.start_timeout, silenceMs: adapter.silence_timeout };
  const program = programOf(adapter);
  return {
    id: entry.id,
    yields: adapter.yields,
    restartable: adapter.restartable,
    async *run(given: Turn, control: RunControl): AsyncGenerator<Part> {
      const { signal } = control;
      const turn = { ...given, tree: treeOf(entry, given) };
      signal.throwIfAborted();
      const passwords = PROFILES[adapter.profile].random?.map((name) => [name, randomBytes(24).toString("base64url")]);
      const set = { ...Object.fromEntries(passwords ?? []), ...program.set };
      yield startPartOf(program, program.args, tools().env);
      const run = await ProgramRun.start({ ...program, set }, program.args, times, tools(), {
        turn,
        control,
      });
      const onToolFault = (fault: unknown, toolName: string) => onFault(fault, entry.id, turn, toolName);
      const chosen = inMode(entry, turn.mode);
      const ours = new ToolsOfRun({ entry: chosen, turn, control, run, onFault: onToolFault });
      const { clock } = tools();
      const talk = new AcpTurn(entry, adapter, { run, turn, control, clock, toolServer: () => ours.server });
      const end = async () => {
        await Promise.all([talk.end(), ours.close()]);
      };
      signal.addEventListener("abort", end, { once: true });
      try {
        // The run may have been aborted while the program started.
        signal.throwIfAborted();
        if (hasTools(chosen)) await ours.open(source, toolServers);
        void talk.carryOut();
        const failure = yield* run.drain(signal, () => talk.isWaiting || ours.isBusy);
        await end();
        const exit = run.exitPart();
        if (exit) yield exit;
        if (failure !== undefined) throw failure;
      } finally {
        signal.removeEventListener("abort", end);
        await end();
        run.logExit(tools().log, { agentId: entry.id, sessionId: turn.sessionId, runId: turn.runId });
      }
    },
  };
}
