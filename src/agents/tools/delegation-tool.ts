import type { Delegate } from "../sub-agent.ts";
import { Delegation, SUB_AGENT_TOOL } from "../sub-agent.ts";
import { defineTool, type Tool } from "./tool.ts";

/** The maximum number of agents in the description. Further agents must be named in the prompt. */
const MAX_NAMED = 64;

/** The tool `sub-agent`: hands a task to another agent of the catalogue. */
export function createDelegationTool(
  delegate: Delegate,
  agents: readonly { readonly id: string; readonly description: string }[],
): Tool {
  const named = agents.slice(0, MAX_NAMED).map(({ id, description }) => `- ${id}: ${description.slice(0, 200)}`);
  return defineTool({
    name: SUB_AGENT_TOOL,
    description: [
      "Hand a task to another agent, and get its result. Several calls run concurrently.",
      ...(named.length > 0 ? ["The agents:", ...named] : []),
    ].join("\n"),
    input: Delegation,
    isConfirmed: false,
    // Each agent has its own timeouts.
    timeoutMs: undefined,
    async run(call, { toolCallId, turn, control, emit }) {
      const parts = delegate({ ...call, toolCallId }, turn, control);
      try {
        for (;;) {
          const next = await parts.next();
          if (next.done) return { content: JSON.stringify(next.value), isError: !next.value.ok };
          await emit(next.value);
        }
      } finally {
        await parts.return?.({ ok: true, result: "" });
      }
    },
  });
}
