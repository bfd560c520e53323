import { z } from "zod";
import { type AgentEntry, acceptsTurns, type Catalog, findAgent } from "../config/catalog/catalog.ts";
import { AppError, ERRORS, type ErrorCode } from "../protocol/errors.ts";
import type { AgentId, MessageId } from "../protocol/ids.ts";
import type { AgentRef } from "../protocol/message.ts";
import { cutText } from "../shared/text.ts";
import type { Agent, CallTree, Part, RunControl, Turn } from "./agent.ts";
import { RunApprovals } from "./tools/approvals.ts";
import { TreeBudget } from "./tree-budget.ts";

/** The name of the tool, in tool calls and their results. */
export const SUB_AGENT_TOOL = "sub-agent";
/** The longest result, in UTF-16 units: at most 48 KiB of UTF-8, so that it fits one event (64 KiB, rule C22). */
const MAX_RESULT_UNITS = 16_384;

/** The arguments of the tool `sub-agent`. */
export const Delegation = z.strictObject({
  name: z.string().min(1).max(64).describe("The agent that does the task."),
  task: z
    .string()
    .min(1)
    .max(6_000)
    .describe("The task, complete in itself: the agent does not see this conversation."),
});
export type Delegation = z.infer<typeof Delegation>;

/** The outcome. A failed sub-agent is a result for the calling agent, whose own run does not fail. */
export type DelegationResult =
  | { readonly ok: true; readonly result: string }
  | {
      readonly ok: false;
      readonly error: {
        readonly code: "RECURSION" | "MAX_DEPTH" | "NOT_ALLOWED" | "NOT_FOUND" | "LIMIT" | ErrorCode;
        readonly message: string;
      };
    };

/**
 * Let another agent do a task within the run of `turn`. Yields that agent's parts, each with its author, and returns
 * its result: the text that the agent itself wrote. `toolCallId` identifies the call among those of the run. Throws
 * only if the run is aborted.
 */
export type Delegate = (
  call: Delegation & { readonly toolCallId: string },
  turn: Turn,
  control: RunControl,
) => AsyncGenerator<Part, DelegationResult>;

/** The node of the tree for an agent that works on a turn. */
export function treeOf(caller: AgentEntry, { tree, approvedTools }: Turn): CallTree {
  if (tree) return tree;
  const approvals = new RunApprovals(approvedTools);
  return { path: [caller.id], calls: [], maxDepth: caller.maxDepth, approvals, budget: new TreeBudget() };
}

interface DelegateOptions {
  readonly catalog: () => Catalog;
  readonly find: (id: AgentId) => Agent | undefined;
  /** Called with a sub-agent's exception. The result contains only the text of an `AppError`. */
  readonly onFault: (fault: unknown, agentId: AgentId, turn: Turn) => void;
}

/** Make the function by which an agent delegates, within the catalogue's limits for this agent. */
export function createDelegate(caller: AgentEntry, { catalog, find, onFault }: DelegateOptions): Delegate {
  return async function* delegate(call, turn, control) {
    const tree = treeOf(caller, turn);
    const callee = findCallee(catalog(), call.name, turn.workspaceId);
    const { name } = callee;
    const refusal = findRefusal(caller, tree, callee);
    if (refusal) return refusal;
    const agent = callee.isEnabled && find(name);
    if (!agent) return refuse("NOT_FOUND", `There is no agent ${name}.`);
    const kind = callee.entry?.adapter.kind;
    const isProgram = kind === "command" || kind === "acp";
    const limit = tree.budget.enter(isProgram);
    if (limit !== undefined) return refuse("LIMIT", limit);
    const result = collectResult();
    try {
      yield* work(agent, { call, turn, tree, result }, control);
    } catch (error) {
      control.signal.throwIfAborted();
      onFault(error, name, turn);
      return failureOf(error);
    } finally {
      tree.budget.leave(isProgram);
    }
    control.signal.throwIfAborted();
    return { ok: true, result: result.text() };
  };
}

interface Task {
  call: Parameters<Delegate>[0];
  turn: Turn;
  /** The caller's node. */
  tree: CallTree;
  result: ReturnType<typeof collectResult>;
}

/** The parts of a sub-agent, each with its author. Its own text becomes the result. */
async function* work(agent: Agent, { call, turn, tree, result }: Task, control: RunControl): AsyncGenerator<Part> {
  const path = [...tree.path, agent.id];
  const calls = [...tree.calls, call.toolCallId];
  const ref: AgentRef = { kind: "sub", name: agent.id, depth: tree.path.length, path, calls };
  for await (const part of agent.run(toTask(call, turn, { ...tree, path, calls }), control)) {
    // A sub-agent's provider session must not replace that of the session's agent.
    if (part.type === "provider-session") continue;
    result.add(part);
    if (part.type === "usage" && !part.agent) tree.budget.countTokens(part.usage);
    yield part.agent ? part : { ...part, agent: ref };
  }
}

interface Callee {
  name: AgentId;
  /** Undefined for an unknown agent. */
  entry: AgentEntry | undefined;
  isEnabled: boolean;
  /** Whether an entry of `sub_agents` means this agent. */
  isListed: (allowed: string) => boolean;
}

function findCallee(catalog: Catalog, called: string, workspaceId: string | undefined): Callee {
  const entry = findAgent(catalog, called, workspaceId);
  const name = entry?.id ?? (called as AgentId);
  const isListed = (allowed: string) => allowed === name || findAgent(catalog, allowed, workspaceId)?.id === name;
  return { name, entry, isEnabled: entry?.enabled === true, isListed };
}

/** Why the caller may not delegate to an agent, in the order of docs/use/agents.md; undefined if it may. */
function findRefusal(
  caller: AgentEntry,
  { path, maxDepth }: CallTree,
  { name, entry, isListed }: Callee,
): DelegationResult | undefined {
  if (path.includes(name)) return refuse("RECURSION", `${name} is already working: ${path.join(" > ")}.`);
  if (path.length > maxDepth) {
    return refuse("MAX_DEPTH", `Agents may be nested at most ${maxDepth} deep below ${path[0]}.`);
  }
  if (caller.subAgents.length > 0 && !caller.subAgents.some(isListed)) {
    return refuse("NOT_ALLOWED", `${caller.id} may not delegate to ${name}.`);
  }
  if (entry && !acceptsTurns(entry)) return refuse("NOT_ALLOWED", `${name} is external: it takes no tasks.`);
  return undefined;
}

/** Only the text of an `AppError` is for the calling agent. */
function failureOf(error: unknown): DelegationResult {
  return error instanceof AppError ? refuse(error.code, error.message) : refuse("internal", ERRORS.internal.text);
}

function refuse(code: Extract<DelegationResult, { ok: false }>["error"]["code"], message: string): DelegationResult {
  return { ok: false, error: { code, message } };
}

/** A separate turn without the surrounding conversation, within the run of the calling agent. */
function toTask({ task, toolCallId }: Parameters<Delegate>[0], turn: Turn, tree: CallTree): Turn {
  return {
    runId: turn.runId,
    attempt: turn.attempt,
    sessionId: turn.sessionId,
    workspaceId: turn.workspaceId,
    mode: turn.mode,
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
    tree,
  };
}

/** The sub-agent's own text, its messages separated by empty lines, without the text of its own sub-agents. */
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
