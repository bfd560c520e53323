import { AsyncLocalStorage } from "node:async_hooks";
import { z } from "zod";
import type { AgentEntry, Catalog } from "../config/catalog.ts";
import { AppError, ERRORS, type ErrorCode } from "../protocol/errors.ts";
import type { AgentId, MessageId, RunId } from "../protocol/ids.ts";
import type { AgentRef } from "../protocol/message.ts";
import { cutText } from "../protocol/text.ts";
import type { Agent, Part, RunControl, Turn } from "./agent.ts";

/** The name of the tool, in tool calls and their results. */
export const SUB_AGENT_TOOL = "sub-agent";
/** A result travels in one event and goes into a model's window: at most 48 KiB of UTF-8, below the 64 of rule C22. */
const MAX_RESULT_UNITS = 16_384;

/** The arguments of the tool `sub-agent`. */
export const Delegation = z.strictObject({
  name: z.string().min(1).max(64).describe("The agent to ask."),
  task: z.string().min(1).max(6_000).describe("What it shall do. It knows nothing of this conversation."),
});
export type Delegation = z.infer<typeof Delegation>;

/** What became of it. A sub-agent that fails is an answer, not a failure of the agent that asked. */
export type DelegationResult =
  | { readonly ok: true; readonly result: string }
  | {
      readonly ok: false;
      readonly error: {
        readonly code: "RECURSION" | "MAX_DEPTH" | "NOT_ALLOWED" | "NOT_FOUND" | ErrorCode;
        readonly message: string;
      };
    };

/**
 * Let another agent do a task within the run of `turn`. Yields the parts of that agent, each with who said it, and
 * returns its result: the text it said itself. `toolCallId` names the call, and tells apart what two calls of one run
 * do. Throws only when the run is aborted.
 */
export type Delegate = (
  call: Delegation & { readonly toolCallId: string },
  turn: Turn,
  control: RunControl,
) => AsyncGenerator<Part, DelegationResult>;

interface CallStack {
  readonly runId: RunId;
  /** Ids from the session's agent to the one that runs. */
  readonly path: readonly AgentId[];
  /** `max_depth` of the session's agent: how many agents may stand below it. */
  readonly maxDepth: number;
}

/** Travels with the calls, so that sub-agents that run side by side have a stack each. */
const stacks = new AsyncLocalStorage<CallStack>();

function stackOf(caller: AgentEntry, { runId }: Turn): CallStack {
  const stack = stacks.getStore();
  // What a sub-agent sets off, such as a question, may start other runs in the same process: not its calls.
  return stack?.runId === runId ? stack : { runId, path: [caller.id], maxDepth: caller.maxDepth };
}

export function createDelegate(
  caller: AgentEntry,
  options: {
    readonly catalog: () => Catalog;
    readonly find: (id: AgentId) => Agent | undefined;
    /** Hears of what a sub-agent threw that was no `AppError`: such text goes to nobody outside. */
    readonly onFault: (fault: unknown, agentId: AgentId, turn: Turn) => void;
  },
): Delegate {
  return async function* delegate(call, turn, control) {
    const stack = stackOf(caller, turn);
    const name = call.name as AgentId;
    const depth = stack.path.length;
    if (stack.path.includes(name)) return refuse("RECURSION", `${name} is already at work: ${stack.path.join(" > ")}.`);
    if (depth > stack.maxDepth)
      return refuse("MAX_DEPTH", `At most ${stack.maxDepth} agents may stand below ${stack.path[0]}.`);
    if (caller.subAgents.length > 0 && !caller.subAgents.includes(name)) {
      return refuse("NOT_ALLOWED", `${caller.id} may not ask ${name}.`);
    }
    const agent = options.catalog().agents.get(name)?.enabled ? options.find(name) : undefined;
    if (!agent) return refuse("NOT_FOUND", `There is no agent ${name}.`);

    const path = [...stack.path, name];
    const ref: AgentRef = { kind: "sub", name, depth, path };
    const result = collectResult();
    const run = () => agent.run(toTask(call, turn), control);
    try {
      for await (const part of withStack({ ...stack, path }, run)) {
        // The provider's session of a sub-agent would be taken for one of the session's agent.
        if (part.type === "provider-session") continue;
        result.add(part);
        yield part.agent ? part : { ...part, agent: ref };
      }
    } catch (error) {
      control.signal.throwIfAborted();
      if (error instanceof AppError) return refuse(error.code, error.message);
      options.onFault(error, name, turn);
      return refuse("internal", ERRORS.internal.text);
    }
    control.signal.throwIfAborted();
    return { ok: true, result: result.text() };
  };
}

function refuse(code: Extract<DelegationResult, { ok: false }>["error"]["code"], message: string): DelegationResult {
  return { ok: false, error: { code, message } };
}

/** A turn of its own, without the conversation around it, in the run of the agent that asked. */
function toTask({ task, toolCallId }: Parameters<Delegate>[0], turn: Turn): Turn {
  return {
    runId: turn.runId,
    attempt: turn.attempt,
    sessionId: turn.sessionId,
    workspaceId: turn.workspaceId,
    input: {
      id: toolCallId as MessageId,
      sessionId: turn.sessionId,
      role: "user",
      content: task,
      status: "success",
      createdAt: turn.input.createdAt,
    },
    history: [],
    approvedTools: turn.approvedTools,
  };
}

/** A generator runs on behalf of whoever pulls it: so each pull is made within the stack. */
async function* withStack(stack: CallStack, run: () => AsyncIterable<Part>): AsyncGenerator<Part> {
  const parts = stacks.run(stack, () => run()[Symbol.asyncIterator]());
  let isOpen = false;
  try {
    while (true) {
      isOpen = false;
      const next = await stacks.run(stack, () => parts.next());
      if (next.done) return;
      isOpen = true;
      yield next.value;
    }
  } finally {
    if (isOpen) await stacks.run(stack, () => parts.return?.());
  }
}

/** What the sub-agent said itself, message by message with an empty line between; not what those it asked said. */
function collectResult() {
  const messages: string[] = [];
  let current = "";
  let units = 0;
  const say = (text: string) => {
    const kept = cutText(text, Math.max(MAX_RESULT_UNITS - units, 0));
    units += kept.length;
    current += kept;
  };
  const end = () => {
    if (current !== "") messages.push(current);
    current = "";
  };
  return {
    add(part: Part): void {
      if (part.agent || part.type === "tool-call" || part.type === "tool-result" || part.type === "message") end();
      if (part.agent) return;
      if (part.type === "text") say(part.text);
      if (part.type === "message") {
        say(part.content);
        end();
      }
    },
    text(): string {
      end();
      return cutText(messages.join("\n\n"), MAX_RESULT_UNITS);
    },
  };
}
