import type { FloorView } from "../client/answers.ts";
import type { Client } from "../client/client.ts";
import { sessionsOn } from "../client/floor-after.ts";
import type { LoggedServerEvent } from "../client/server-event.ts";
import type { Decision } from "../protocol/decision.ts";
import type { ListedRun } from "../protocol/listed-run.ts";
import type { Session } from "../protocol/session.ts";
import type { Language } from "./language.ts";
import { layOut } from "./line-layout.ts";
import { localDayOf, localTimeOf } from "./local-time.ts";
import { describeBlocked, describeOnFloor, type NarratedLine, Narrator } from "./narration.ts";
import { NARRATION } from "./narration-words.ts";
import { type Paint, plain } from "./paint.ts";
import type { Report } from "./reports.ts";
import { wrapToWidth } from "./text-width.ts";
import { WHY } from "./why-words.ts";

const WIDTH = 80;
/** The maximum number of lines for one event. */
const MAX_LINES = 4;
/** The maximum number of events of a floor's log that are searched, and on one page of it. */
const MAX_SEARCHED = 8_000;
const PAGE = 2_000;
/** The maximum number of sessions of a kind that are named. */
const MAX_NAMED = 10;

export interface WhyQuery {
  /** A session's id, or a floor's, which contains a colon. */
  what: string;
  /** The maximum number of lines of the story; older ones are only counted. */
  limit: number;
  nameOf?: (agentId: string) => string;
  paint?: Paint;
  /** Default: English. What the server says stays as it is. */
  language?: Language;
}

interface Story {
  view: FloorView;
  /** Undefined: the story of the floor. */
  session: Session | undefined;
  /** In the order in which they happened. */
  events: LoggedServerEvent[];
  /** The decision if the session's agent asked now; undefined if it has the floor, or has ended. */
  ifAsked: Decision | undefined;
  /** Whether the holder gives way to a session that waits when it has nothing running (`idle_yields`). */
  givesWay: boolean;
  nameOf: (agentId: string) => string;
  language: Language;
}

/** Whether the argument of `interlock why` is a floor, and not a session. */
export const isFloor = (what: string) => what.includes(":");

/**
 * What a session or a floor waits for, the story of its last decisions, and what would let the session through.
 * @throws ClientError if there is no such session, or the node refuses
 */
export async function reportWhy(
  client: Client,
  { what, limit, nameOf = (agentId) => agentId, paint = plain, language = "en" }: WhyQuery,
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
  const givesWay = session !== undefined && view.holder !== null && (await hasIdleYields(client, view.holder));
  const about = { view, session, events, ifAsked, givesWay, nameOf, language };
  const asks = session?.activity === "waiting" ? await asksOf(client, session) : [];
  const lines = storyOf(about);
  const shown = lines.slice(-limit);
  const isToday = shown.every(({ at }) => new Date(at).toDateString() === new Date(now).toDateString());
  const layout = { width: WIDTH, maxLines: MAX_LINES, timeOf: isToday ? localTimeOf : localDayOf, nameOf, paint };
  const story = shown.length > 0 ? layOut(shown, layout) : [WHY[language].noDecision(session !== undefined)];
  const text = [
    ...[
      ...(session
        ? [nowOf(session, about), ...asks.map((ask) => askOf(ask, language)), ...failureOf(session, about)]
        : []),
      ...floorNow(about),
    ].flatMap((line) => wrapped(line)),
    "",
    ...story,
    ...(ifAsked && session ? ["", ...previewLines(ifAsked, nameOf(session.agentId), language)] : []),
  ];
  return { facts: { floor: view, ...(session && { session }), events, ...(ifAsked && { ifAsked }) }, lines: text };
}

/** The decision if the session's agent asked now. */
const previewOf = async (client: Client, { floorId, agentId, workspaceId }: Session) =>
  (await client.whatIf(floorId, agentId, { workspaceId })).decision;

async function hasIdleYields(client: Client, { agentId, workspaceId }: Session): Promise<boolean> {
  const { agents } = await client.listAgents({ workspaceId });
  return agents.some(({ id, idleYields }) => id === agentId && idleYields === true);
}

type Ask = NonNullable<ListedRun["asks"]>[number];

const askOf = ({ tool, isStill }: Ask, language: Language): string =>
  WHY[language].waitsForAnswer(tool, isStill === true);

async function asksOf(client: Client, { id, agentId, userId }: Session): Promise<readonly Ask[]> {
  const { runs } = await client.listRuns({ agentId, ...(userId !== undefined && { userId }) });
  return runs.find(({ sessionId }) => sessionId === id)?.asks ?? [];
}

/** The newest transitions and decisions of a session or of all sessions, as many as `wanted` lines may need. */
async function lastEvents(client: Client, floorId: string, sessionId: string | undefined, wanted: number) {
  const found: LoggedServerEvent[] = [];
  let before: string | undefined;
  for (let searched = 0; searched < MAX_SEARCHED && found.length < 2 * wanted; ) {
    const page = await client.readFloorLog(floorId, { limit: PAGE, ...(before !== undefined && { before }) });
    found.push(...page.events.filter((event) => isInStory(event) && (!sessionId || event.sessionId === sessionId)));
    searched += page.events.length;
    before = page.events.at(-1)?.position;
    if (!page.hasMore || before === undefined) break;
  }
  return found.reverse();
}

const IN_STORY: ReadonlySet<string> = new Set([
  "session_created",
  "session_transition",
  "arbitration",
  "routed",
  "agent_switched",
]);

const isInStory = ({ type }: LoggedServerEvent) => IN_STORY.has(type);

function storyOf({ view, session, events, nameOf, language }: Story): NarratedLine[] {
  const narrator = new Narrator(nameOf, language);
  for (const { id, agentId } of [...sessionsOn(view), ...(session ? [session] : [])]) narrator.meet(id, agentId);
  return events.flatMap((event): NarratedLine[] => {
    if (event.type === "session_transition" && event.data.by)
      narrator.meet(event.data.by.sessionId, event.data.by.agentId);
    if (event.type !== "arbitration") return narrator.describe(event);
    const { challenger, holder: before, effects = [] } = event.data;
    if (before) narrator.meet(before.sessionId, before.agentId);
    for (const { sessionId, agentId } of effects) narrator.meet(sessionId, agentId);
    if (challenger.sessionId !== undefined) narrator.meet(challenger.sessionId, challenger.agentId);
    if (event.sessionId !== undefined) return narrator.describe(event);
    return describeOnFloor(event, { nameOf, words: NARRATION[language] });
  });
}

/** The session's present state, and what it waits for. */
function nowOf(session: Session, story: Story): string {
  const { view, nameOf, language } = story;
  const { holder, queued } = view;
  const words = WHY[language];
  const name = nameOf(session.agentId);
  switch (session.state) {
    case "active":
      return words.holds(name);
    case "ducked": {
      const { level = 0 } = session;
      const volume = level === 0 ? NARRATION[language].ownVolume : NARRATION[language].quieter(-level);
      return words.isAudible(name, holder ? nameOf(holder.agentId) : undefined, volume);
    }
    case "archived":
      return session.replacedBy === undefined ? words.hasEnded(name) : words.goesOnIn(name, session.replacedBy);
    case "created": {
      if (session.schedule) return words.waitsForTime(name, localDayOf(session.schedule.at), session.schedule.every);
      if (session.queuedAt === undefined) return whyNotQueued(name, story);
      if (isUnavailable(story)) return words.unavailable(name);
      return words.waits(
        name,
        blockerOf(story),
        queued.findIndex(({ id }) => id === session.id),
      );
    }
    case "paused":
      return whyPaused(session, story);
  }
}

/** Whether it never asked, was refused, or has left the queue. */
function whyNotQueued(name: string, { events, language }: Story): string {
  const words = WHY[language];
  const decided = events.findLast((event) => event.type === "arbitration");
  const reason = decided?.type === "arbitration" ? decided.data.reason : undefined;
  const hasLeft = reason === "lease_expired" || reason === "queue_timeout";
  return hasLeft ? words.leftQueue(name, reason === "lease_expired") : words.requestsNothing(name);
}

/** Why the session's last turn failed, and what helps. */
function failureOf({ state, agentId, activity, failure }: Session, { nameOf, language }: Story): string[] {
  // A turn that its budget refused did not begin, so the session did not fail.
  if (!failure || (activity !== "failed" && failure.errorCode !== "budget_exhausted")) return [];
  const { errorCode, message, retryAt } = failure;
  const words = WHY[language];
  const isOver = state === "archived";
  const sentence = words.failed(nameOf(agentId), message.replace(/\.$/, ""), errorCode, isOver);
  if (isOver) return [sentence];
  return [
    retryAt === undefined
      ? sentence
      : sentence + (errorCode === "budget_exhausted" ? words.freeAt : words.retryAt)(localTimeOf(retryAt)),
    ...(errorCode.startsWith("provider_") ? [words.providersReason] : []),
  ];
}

function blockerOf({ view: { holder }, session, events, ifAsked, givesWay, nameOf, language }: Story): string {
  const words = WHY[language];
  if (!holder) return words.theFloor;
  // One that is only preempted has to ask first.
  const last = events.findLast(({ type }) => type === "arbitration" || type === "session_transition");
  const waits = session?.state === "created" || (last?.type === "arbitration" && last.data.outcome === "queued");
  const isFollowed = givesWay && waits && ifAsked?.reason !== "restricted";
  return (isFollowed ? words.toGiveWay : words.toEnd)(nameOf(holder.agentId));
}

const isUnavailable = ({ ifAsked }: Story): boolean =>
  ifAsked?.reason === "agent_disabled" || ifAsked?.reason === "unknown_agent";

function whyPaused(session: Session, story: Story): string {
  const { view, events, ifAsked, nameOf, language } = story;
  const words = WHY[language];
  const name = nameOf(session.agentId);
  if (session.pausedBy === "user") return words.pausedByUser(name);
  const paused = events.findLast((event) => event.type === "session_transition" && event.data.to === "paused");
  const { by, reason } = (paused?.data ?? {}) as { by?: { agentId: string }; reason?: string };
  if (session.pausedBy === "yield") return reason === "lease_expired" ? words.lapsed(name) : words.gaveBack(name);
  // Agents and restrictions come and go while it is paused.
  if (isUnavailable(story)) return words.unavailable(name);
  if (ifAsked?.reason === "restricted") return words.restricted(name, (view.restrictedBy ?? []).join(", "));
  return words.paused(name, by && nameOf(by.agentId), blockerOf(story));
}

/** Who has the floor and who waits. */
function floorNow({ view, session, nameOf, language }: Story): string[] {
  const { holder, ducked = [], paused, queued, reserved, restrictedBy = [], flags } = view;
  const words = WHY[language];
  const list = (what: (names: string) => string, sessions: readonly Session[]) => {
    if (sessions.length === 0) return [];
    const named = sessions.slice(0, MAX_NAMED).map(({ agentId }) => nameOf(agentId));
    const names = named.join(", ");
    return [what(sessions.length > MAX_NAMED ? words.andMore(names, sessions.length - MAX_NAMED) : names)];
  };
  const isHolder = holder !== null && holder.id === session?.id;
  const set = Object.keys(flags).filter((flag) => flags[flag]);
  return [
    ...(holder && !isHolder
      ? [words.holderHas(nameOf(holder.agentId), holder.priority, holder.interruptible === false)]
      : []),
    ...(holder || reserved ? [] : [words.free]),
    ...(!holder && reserved ? [words.reserved(reserved.sessionId)] : []),
    ...list(words.beneathIt, ducked),
    ...list(words.waiting, queued),
    ...list(words.pausedOnes, paused),
    ...(restrictedBy.length > 0 ? [words.restrictedBy(restrictedBy.join(", "))] : []),
    ...(set.length > 0 ? [words.flags(set.join(", "))] : []),
  ];
}

/** The decision that a request would get now, and what it would need to be granted. */
function previewLines(decision: Decision, name: string, language: Language): string[] {
  const { outcome, reason, say } = decision;
  const words = WHY[language];
  if (outcome === "granted") return wrapped(`${words.wouldBeAudible(name, reason)} “${say}”`);
  const [first = "", ...needs] = describeBlocked(decision, NARRATION[language]).map(({ text }) => text);
  return [...wrapped(words.ifAsked(name, first)), ...needs.flatMap((need) => wrapped(words.it(need)))];
}

const wrapped = (line: string) => wrapToWidth(line, WIDTH);
