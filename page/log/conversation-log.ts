import {
  ConversationReader,
  type ConversationView,
  type SessionMessage,
  type ToolUse,
  toolKeyOf,
} from "../../src/client/conversation-reader.ts";
import type { LogEvent } from "./log-event.ts";

/**
 * A session's conversation after the first `count` events of its floor's log, from the log only.
 * @param indices of the session's events in the log
 */
export function transcriptOf(
  events: readonly LogEvent[],
  indices: readonly number[] = [],
  count = events.length,
): ConversationView {
  const conversation = new ConversationReader();
  for (const eventIndex of indices) {
    if (eventIndex >= count) break;
    conversation.take(events[eventIndex]!);
  }
  return conversation.view;
}

const PAUSING: ReadonlySet<string> = new Set(["preempt", "pause", "yield"]);

/** A pause more events ago than this is shown without its reason: each card searches for its own at each moment. */
const PAUSE_WITHIN = 5_000;

/** The reason of the transition that last paused a session, among the first `count` events of its floor's log. */
export function lastPauseOf(events: readonly LogEvent[], sessionId: string, count: number): string | undefined {
  for (let index = count - 1; index >= Math.max(0, count - PAUSE_WITHIN); index -= 1) {
    const event = events[index]!;
    if (event.sessionId !== sessionId || event.type !== "session_transition") continue;
    if (PAUSING.has(event.data.event)) return event.data.reason;
  }
  return undefined;
}

/** The last message is searched no further back than this many events. */
const WORDS_WITHIN = 1_000;

/** The last message of a session, of any role, among the first `count` events of its floor's log; without summaries. */
export function lastWordsOf(events: readonly LogEvent[], sessionId: string, count: number): string | undefined {
  for (let index = count - 1; index >= Math.max(0, count - WORDS_WITHIN); index -= 1) {
    const event = events[index]!;
    if (event.sessionId !== sessionId || event.type !== "message" || event.data.summary) continue;
    if (event.data.content !== "") return event.data.content;
  }
  return undefined;
}

/** A line of the conversation. */
export type Item =
  | { kind: "message"; at: number; message: SessionMessage }
  | { kind: "tool"; at: number; use: ToolUse };

/** Lines of one agent, or a sub-agent's part of them, folded beneath its caller. */
export type CallNode = { kind: "item"; item: Item } | { kind: "call"; name: string; key: string; nodes: CallNode[] };

/** Messages and tool calls in the order in which they happened; each summary follows the messages that it covers. */
export function itemsOf({ messages, toolUses }: Pick<ConversationView, "messages" | "toolUses">): Item[] {
  const items: Item[] = [
    ...messages.map((message) => ({ kind: "message" as const, at: message.createdAt, message })),
    ...toolUses.map((use) => ({ kind: "tool" as const, at: Date.parse(use.timestamp), use })),
  ];
  return insertSummaries(items.sort((one, other) => one.at - other.at));
}

/**
 * A summary is written during later turns: it is placed before the user's next message after the last one that it
 * covers. A covered message that is not among the items is older than all of them.
 */
function insertSummaries(items: Item[]): Item[] {
  const ordered = items.filter((item) => !coveredBy(item));
  if (ordered.length === items.length) return items;
  for (const item of items) {
    const upTo = coveredBy(item);
    if (!upTo) continue;
    const last = ordered.findIndex((each) => each.kind === "message" && each.message.id === upTo);
    const next = ordered.findIndex((each, index) => index > last && isOfUser(each));
    ordered.splice(next === -1 ? ordered.length : next, 0, item);
  }
  return ordered;
}

const coveredBy = (item: Item) => (item.kind === "message" ? item.message.summary?.upTo : undefined);
const isOfUser = (item: Item) => item.kind === "message" && item.message.role === "user";

/**
 * Each sub-agent's messages are placed beneath the call that started it: a tree by `agent.path`. A call is identified
 * by the id of its tool call, so that the alternating messages of two sub-agents stay separate, and the call keeps its
 * key when a line is added before its first one. Imported histories may lack these ids: then a call lasts until another
 * agent writes. A message of the user ends all calls, because the ids are unique only within a run.
 */
export function callTree(items: readonly Item[]): CallNode[] {
  const root: Branch = { nodes: [], calls: new Map(), last: undefined };
  const uses = new Map<string, number>();
  const keyFor = (name: string) => {
    const times = uses.get(name) ?? 0;
    uses.set(name, times + 1);
    return times === 0 ? name : `${name}:${times}`;
  };
  /** The branch of an agent's call below `branch`; begins one if there is none. */
  const enter = (branch: Branch, name: string, call: string | undefined, item: Item): Branch => {
    let next = call === undefined ? branch.last : branch.calls.get(call);
    if (next?.name !== name) {
      const node: CallNode = { kind: "call", name, key: keyFor(`c:${call ?? messageKeyOf(item)}:${name}`), nodes: [] };
      branch.nodes.push(node);
      next = { name, nodes: node.nodes, calls: new Map(), last: undefined };
      if (call !== undefined) branch.calls.set(call, next);
    }
    branch.last = call === undefined ? next : undefined;
    return next;
  };
  for (const item of items) {
    if (isOfUser(item)) root.calls.clear();
    const agent = item.kind === "message" ? item.message.agent : item.use.data.agent;
    let branch = root;
    for (const [depth, name] of (agent?.path.slice(1) ?? []).entries()) {
      branch = enter(branch, name, agent?.calls?.[depth], item);
    }
    branch.last = undefined;
    branch.nodes.push({ kind: "item", item });
  }
  return root.nodes;
}

/** An agent's part of the tree under construction. */
interface Branch {
  nodes: CallNode[];
  /** Calls of other agents, by the ids of their tool calls. */
  calls: Map<string, NamedBranch>;
  /** The call of its last line, if the call has no id. */
  last: NamedBranch | undefined;
}

type NamedBranch = Branch & { name: string };

export const messageKeyOf = (item: Item): string =>
  item.kind === "message" ? `m:${item.message.id}` : `t:${toolKeyOf(item.use)}`;
