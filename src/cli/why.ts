import type { FloorView } from "../client/answers.ts";
import type { Client } from "../client/client.ts";
import type { LoggedServerEvent } from "../client/server-event.ts";
import type { Decision } from "../protocol/decision.ts";
import type { Session } from "../protocol/session.ts";
import { layOut } from "./line-layout.ts";
import { describeBlocked, type Line, Narrator } from "./narration.ts";
import { NARRATION } from "./narration-words.ts";
import { type Paint, plain } from "./paint.ts";
import type { Report } from "./reports.ts";
import { plainLine, wrapToWidth } from "./text-width.ts";

const WIDTH = 80;
/** The most lines for one event. */
const MAX_LINES = 4;
/** The most events of a floor's log that are searched, and on one page of it. */
const MAX_SEARCHED = 8_000;
const PAGE = 2_000;
/** The most sessions of a kind that are named. */
const MAX_NAMED = 10;

export interface WhyQuery {
  /** A session's id, or a floor's, which contains a colon. */
  what: string;
  /** The most lines of the story; older ones are only counted. */
  limit: number;
  nameOf?: (agentId: string) => string;
  paint?: Paint;
}

interface Story {
  view: FloorView;
  /** Undefined: the story of the floor. */
  session: Session | undefined;
  /** In the order in which they happened. */
  events: LoggedServerEvent[];
  nameOf: (agentId: string) => string;
}

/** Whether the argument of `interlock why` is a floor, and not a session. */
export const isFloor = (what: string) => what.includes(":");

/**
 * What a session or a floor waits for, the story of its last decisions, and what would let the session through.
 * @throws ClientError if there is no such session, or the node refuses
 */
export async function reportWhy(
  client: Client,
  { what, limit, nameOf = (agentId) => agentId, paint = plain }: WhyQuery,
  now: number,
): Promise<Report> {
  const session = isFloor(what) ? undefined : (await client.getSession(what)).session;
  const floorId = session?.floorId ?? what;
  const isOver = session?.state === "archived";
  const [view, events, ifAsked] = await Promise.all([
    client.getFloor(floorId),
    lastEvents(client, floorId, session?.id, limit),
    session && !isOver && session.state !== "active" ? previewOf(client, session) : undefined,
  ]);
  const told = { view, session, events, nameOf };
  const lines = tell(told);
  const shown = lines.slice(-limit);
  const isToday = shown.every(({ at }) => new Date(at).toDateString() === new Date(now).toDateString());
  const layout = { width: WIDTH, maxLines: MAX_LINES, timeOf: isToday ? timeOf : dayOf, nameOf, paint };
  const story = shown.length > 0 ? layOut(shown, layout) : [`no decision about this ${session ? "session" : "floor"}`];
  const text = [
    ...[...(session ? [nowOf(session, told)] : []), ...floorNow(told)].flatMap((line) => wrapped(line)),
    "",
    ...story,
    ...(ifAsked && session ? ["", ...previewLines(ifAsked, nameOf(session.agentId))] : []),
  ];
  return { facts: { floor: view, ...(session && { session }), events, ...(ifAsked && { ifAsked }) }, lines: text };
}

/** The decision if the session's agent asked now. */
const previewOf = async (client: Client, { floorId, agentId, workspaceId }: Session) =>
  (await client.whatIf(floorId, agentId, { workspaceId })).decision;

/** The newest transitions and decisions of a session or of all sessions, as many as `wanted` lines may need. */
async function lastEvents(client: Client, floorId: string, sessionId: string | undefined, wanted: number) {
  const found: LoggedServerEvent[] = [];
  let before: string | undefined;
  for (let searched = 0; searched < MAX_SEARCHED && found.length < 2 * wanted; ) {
    const page = await client.readFloorLog(floorId, { limit: PAGE, ...(before !== undefined && { before }) });
    found.push(...page.events.filter((event) => isTold(event) && (!sessionId || event.sessionId === sessionId)));
    searched += page.events.length;
    before = page.events.at(-1)?.position;
    if (!page.hasMore || before === undefined) break;
  }
  return found.reverse();
}

const isTold = ({ type }: LoggedServerEvent) =>
  type === "session_created" || type === "session_transition" || type === "arbitration" || type === "agent_switched";

function tell({ view, session, events, nameOf }: Story): Line[] {
  const narrator = new Narrator(nameOf);
  const { holder, ducked = [], paused, queued } = view;
  for (const each of [...(holder ? [holder] : []), ...ducked, ...paused, ...queued, ...(session ? [session] : [])])
    narrator.meet(each.id, each.agentId);
  return events.flatMap((event): Line[] => {
    if (event.type === "session_transition" && event.data.by)
      narrator.meet(event.data.by.sessionId, event.data.by.agentId);
    if (event.type !== "arbitration") return narrator.take(event);
    const { challenger, holder: before, effects = [] } = event.data;
    if (before) narrator.meet(before.sessionId, before.agentId);
    for (const { sessionId, agentId } of effects) narrator.meet(sessionId, agentId);
    if (challenger.sessionId !== undefined) narrator.meet(challenger.sessionId, challenger.agentId);
    if (event.sessionId !== undefined) return narrator.take(event);
    // A refusal that left no session.
    const at = Date.parse(event.timestamp);
    return describeBlocked(event.data).map((each) => ({ at, agentId: challenger.agentId, ...each }));
  });
}

/** What a session does now, and what it waits for. */
function nowOf(session: Session, { view, events, nameOf }: Story): string {
  const { holder, queued } = view;
  const name = nameOf(session.agentId);
  const blocker = holder ? `${nameOf(holder.agentId)} to end` : "the floor";
  switch (session.state) {
    case "active":
      return `${name} has the floor: nothing silences it`;
    case "ducked":
      return `${name} is heard${beneath(session, holder, nameOf)}`;
    case "archived":
      return `${name} has ended: it asks no more`;
    case "created": {
      if (session.queuedAt === undefined) return `${name} does not wait for the floor: it asks when it is activated`;
      const place = queued.findIndex(({ id }) => id === session.id);
      const ahead = place < 1 ? "" : `, with ${place} in the queue before it`;
      return `${name} waits for ${blocker}${ahead}`;
    }
    case "paused":
      return `${name} ${whyPaused(session, events, { blocker, restrictedBy: view.restrictedBy ?? [], nameOf })}`;
  }
}

interface PausedNow {
  blocker: string;
  restrictedBy: readonly string[];
  nameOf: (agentId: string) => string;
}

function whyPaused(
  session: Session,
  events: readonly LoggedServerEvent[],
  { blocker, restrictedBy, nameOf }: PausedNow,
) {
  if (session.pausedBy === "user") return "is paused by its user: only a resume, or its next message, brings it back";
  if (session.pausedBy === "yield") {
    return "gave the floor back: only a resume, or its next message, lets it ask again";
  }
  const { data } = events.findLast((event) => event.type === "session_transition" && event.data.to === "paused") ?? {};
  const { reason, by } = (data ?? {}) as { reason?: string; by?: { agentId: string } };
  if (reason === "restricted") {
    const which = restrictedBy.length > 0 ? ` (${restrictedBy.join(", ")})` : "";
    return `is paused because it is not allowed now${which}: it comes back by itself when that is over`;
  }
  const silencedBy = by ? ` for ${nameOf(by.agentId)}` : "";
  return `is paused${silencedBy} and waits for ${blocker}: it comes back by itself, unless its agent says resume: manual`;
}

function beneath({ level = 0 }: Session, holder: Session | null, nameOf: (agentId: string) => string): string {
  const volume = level === 0 ? NARRATION.en.ownVolume : NARRATION.en.quieter(-level);
  return `${holder ? ` beneath ${nameOf(holder.agentId)}` : ""}, ${volume}`;
}

/** Who has the floor and who waits. */
function floorNow({ view, session, nameOf }: Story): string[] {
  const { holder, ducked = [], paused, queued, reserved, restrictedBy = [], flags } = view;
  const list = (what: string, sessions: readonly Session[]) => {
    if (sessions.length === 0) return [];
    const named = sessions.slice(0, MAX_NAMED).map(({ agentId }) => nameOf(agentId));
    const rest = sessions.length > MAX_NAMED ? `, and ${sessions.length - MAX_NAMED} more` : "";
    return [`${what}: ${named.join(", ")}${rest}`];
  };
  const isHolder = holder !== null && holder.id === session?.id;
  const keeps = holder?.interruptible === false ? ", and does not yield" : "";
  const set = Object.keys(flags).filter((flag) => flags[flag]);
  return [
    ...(holder && !isHolder
      ? [`${nameOf(holder.agentId)} has the floor with priority ${holder.priority}${keeps}`]
      : []),
    ...(holder || reserved ? [] : ["the floor is free"]),
    ...(!holder && reserved ? [`the floor is reserved for the session ${reserved.sessionId}`] : []),
    ...list("heard beneath it", ducked),
    ...list("waiting", queued),
    ...list("paused", paused),
    ...(restrictedBy.length > 0 ? [`restricted by: ${restrictedBy.join(", ")}`] : []),
    ...(set.length > 0 ? [`flags: ${set.join(", ")}`] : []),
  ];
}

/** What a request would lead to now, and what it would need. */
function previewLines(decision: Decision, name: string): string[] {
  const { outcome, reason, say } = decision;
  if (outcome === "granted") return wrapped(`If ${name} asked now, it would be heard (${reason}) “${say}”`);
  const [first, ...needs] = describeBlocked(decision).map(({ text }) => text);
  return [...wrapped(`If ${name} asked now: it ${first}`), ...needs.flatMap((need) => wrapped(`It ${need}.`))];
}

const wrapped = (line: string) => wrapToWidth(plainLine(line), WIDTH);
const two = (number: number) => String(number).padStart(2, "0");

function timeOf(at: number): string {
  const date = new Date(at);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
}

/** Month, day and time: some of the story happened before today. */
function dayOf(at: number): string {
  const date = new Date(at);
  return `${two(date.getMonth() + 1)}-${two(date.getDate())} ${timeOf(at)}`;
}
