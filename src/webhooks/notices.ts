import type { Webhook } from "../config/webhooks-file.ts";
import type { Decision } from "../protocol/decision.ts";
import type { LogEntry, LoggedType } from "../protocol/event.ts";
import { type FloorId, userOf } from "../protocol/ids.ts";
import type { CommittedEvents } from "../protocol/internal/committed-events.ts";
import type { NoticeType } from "../protocol/notice.ts";
import type { WebhookNotice } from "../store/store.ts";

const TYPES: Partial<Record<LoggedType, NoticeType>> = {
  complete: "turn.ended",
  error: "turn.failed",
  user_question_request: "question.waiting",
  tool_confirmation_request: "confirmation.waiting",
  session_transition: "session.transition",
  arbitration: "decision",
};
/** As an event's JSON has it. Inside a text of the JSON its quotes would be escaped. */
const LAPSED = '"reason":"lease_expired"';

/** Who an event is about. */
interface About {
  agentId: string | undefined;
  /** The user and the owner. */
  users: readonly (string | undefined)[];
}

/** The moment of a commit, in the floors' time, and new ids. */
interface Given {
  time: number;
  newId: () => string;
}

/**
 * What the hooks' receivers are to be sent of a commit's events, in order.
 * @returns undefined if there is nothing
 */
export function noticesOf(
  hooks: ReadonlyMap<string, Webhook>,
  events: CommittedEvents,
  given: Given,
): WebhookNotice[] | undefined {
  const notices: WebhookNotice[] = [];
  for (const entry of events.entries) {
    const types = typesOf(entry);
    if (types.length === 0 || isOfDeleted(entry, events)) continue;
    const chosen = [...hooks.values()].filter((hook) => types.some((type) => hook.types.has(type)));
    if (chosen.length === 0) continue;
    const about = aboutOf(entry, events);
    for (const hook of chosen.filter((each) => isWanted(each, about))) {
      const wanted = types.filter((type) => hook.types.has(type));
      notices.push(...wanted.map((type) => noticeOf(hook, type, entry, events.floorId, about, given)));
    }
  }
  return notices.length === 0 ? undefined : notices;
}

/** The types of notices about an event. */
function typesOf({ type, json }: LogEntry): NoticeType[] {
  const plain = TYPES[type];
  if (plain === undefined) return [];
  const isLapse = (plain === "session.transition" || plain === "decision") && json.includes(LAPSED);
  return isLapse ? [plain, "lease.lapsed"] : [plain];
}

/** Whether the event is deleted with its session: only the last one is kept. */
function isOfDeleted({ sessionId, floorSeq }: LogEntry, { deleted, entries }: CommittedEvents): boolean {
  if (sessionId === undefined || !deleted.has(sessionId)) return false;
  return entries.findLast((entry) => entry.sessionId === sessionId)!.floorSeq !== floorSeq;
}

function aboutOf({ sessionId, json }: LogEntry, { floorId, sessionOf }: CommittedEvents): About {
  const session = sessionId === undefined ? undefined : sessionOf(sessionId);
  if (session) return { agentId: session.agentId, users: [session.userId, session.ownerId] };
  // Only decisions belong to no session: those about a session that was not made.
  const { challenger } = JSON.parse(json) as Partial<Decision>;
  return { agentId: challenger?.agentId, users: [userOf(floorId)] };
}

function isWanted({ agents, users }: Webhook, about: About): boolean {
  if (agents && (about.agentId === undefined || !agents.has(about.agentId))) return false;
  return !users || about.users.some((user) => user !== undefined && users.has(user));
}

function noticeOf(
  hook: Webhook,
  type: NoticeType,
  entry: LogEntry,
  floorId: FloorId,
  { agentId, users }: About,
  { time, newId }: Given,
): WebhookNotice {
  const { sessionId, seq, floorSeq, requestId, at, json } = entry;
  const [userId, ownerId] = users;
  const facts = JSON.stringify({ floorId, floorSeq, sessionId, seq, agentId, userId, ownerId, requestId });
  const event = `{"type":"${entry.type}","data":${json}}`;
  const head = `{"type":"${type}","timestamp":"${new Date(at).toISOString()}"`;
  const payload = `${head},"data":${facts.slice(0, -1)},"event":${event}}}`;
  return { id: `msg_${newId()}`, hook: hook.name, subject: sessionId ?? floorId, at: time, payload };
}
