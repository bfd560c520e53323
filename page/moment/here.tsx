import { createContext, type ReactNode, use, useDeferredValue, useEffect, useMemo, useState } from "react";
import type { AgentView } from "../../src/client/answers.ts";
import type { LiveState } from "../../src/client/live/live.ts";
import type { FloorLiveView } from "../../src/client/live/live-floor.ts";
import type { Session } from "../../src/protocol/session.ts";
import { useClient, useLiveViews } from "../../src/react/hooks.ts";
import { FloorLog, type LogView } from "../log/floor-log.ts";
import { type FloorPicture, PictureBook } from "../log/floor-picture.ts";
import { countUpTo, floorSeqOf } from "../log/log-event.ts";
import type { LogFile } from "../log/log-file.ts";
import { begunIndex, stateBegan } from "../log/state-began.ts";
import { type Address, addressOf, pathOf, searchOf } from "../shell/address.ts";
import { useFollow } from "./carried-moment.ts";
import { type AwaitedMoment, type Moment, useMoment } from "./moment-address.ts";
import { type Opening, sourceOf } from "./opening.ts";
import { useAgents, useWorkspace } from "./use-agents.ts";
import { useCalm } from "./use-calm.ts";

/** The name of a log from a file, in the address. */
const FILE = "file";

/** The context of all views: the floor, the moment, and the known events. */
export interface Here {
  /** Undefined while no floor is chosen. */
  floorId: string | undefined;
  /** The chosen session, if any. */
  sessionId: string | undefined;
  /** A past moment, as the number of an event in the log; undefined: now. */
  at: number | undefined;
  /** The moment of the address, if that is not a position of this log. */
  unknownAt: string | undefined;
  /** The moment that was chosen last, if it is not shown yet. */
  awaited: AwaitedMoment;
  /** The shown span of the log; undefined: all of it. */
  span: Moment["span"];
  /** The kind of events that is shown; undefined: all. */
  only: string | undefined;
  /** Whether gaps without events are folded on the time axis. */
  isFolded: boolean;
  /** Whether the log comes from a file, without a server. */
  isFile: boolean;
  /** Whether the moment is now and a server is there: commands can be sent. */
  isLive: boolean;
  /** The floor at the moment; undefined before the first answer. */
  floor: FloorPicture | undefined;
  log: LogView;
  /** When the log was read again because the server no longer has the older events, in ms since 1970. */
  resetAt: number | undefined;
  /** The number of events up to the moment. */
  count: number;
  /** Events of the floor's stream since the page was opened, the newest last. They may be ahead of the log. */
  recent: FloorLiveView["events"];
  /** Every session in the log after this many events. */
  sessionsAfter: (count: number) => Session[];
  sessionThen: (id: string) => Session | undefined;
  /** When the state of a session began, in ms since 1970; undefined before that part of the log is read. */
  stateBegan: (session: Session) => number | undefined;
  /** The sessions that were created last before the moment, the newest first. */
  newestSessions: (limit: number) => Session[];
  agents: readonly AgentView[];
  agentName: (id: string) => string;
  status: LiveState;
  /** The address of a view of the same floor at the same moment. */
  linkTo: (view: string, rest?: { floorId?: string; sessionId?: string; at?: number | undefined }) => string;
  /** Goes to an address of `linkTo`, at the moment that was chosen last. */
  follow: (link: string) => void;
  lookAt: (floorSeq: number | undefined) => void;
  setSpan: (span: Moment["span"]) => void;
  setFilter: (filter: Partial<Pick<Moment, "only" | "isFolded">>) => void;
  openFile: (file: LogFile) => void;
}

const HereContext = createContext<Here | undefined>(undefined);

export function useHere(): Here {
  const here = use(HereContext);
  if (!here) throw new Error("useHere() outside of <HereProvider>.");
  return here;
}

const NamesContext = createContext<Here["agentName"] | undefined>(undefined);

/** The names of agents alone, for rows: unlike what `useHere` gives, they stay the same as the moment moves. */
export function useAgentName(): Here["agentName"] {
  const agentName = use(NamesContext);
  if (!agentName) throw new Error("useAgentName() outside of <HereProvider>.");
  return agentName;
}

/**
 * Renders its content later than the rest of the page, if that is rendered at once: after a link was followed.
 * @param children the content; `isBehind` while it still shows an older moment than the chosen one
 */
export function Unhurried({ children }: { children: (isBehind: boolean) => ReactNode }) {
  const now = useHere();
  const deferred = useDeferredValue(now);
  const isBehind = deferred.at !== now.at;
  // The first answers arrive in close succession. Each would make the rendering of the former ones begin again.
  const isFirst = deferred.floor === undefined || deferred.agents.length === 0;
  return <HereContext value={isFirst && !isBehind ? now : deferred}>{children(isBehind)}</HereContext>;
}

const NO_VIEW: FloorLiveView = { status: "connecting", floor: undefined, decisions: [], events: [] };

const hasNoFloor = (view: LiveState): boolean => "floor" in view && view.floor === undefined;
const isUnread = ({ events }: LogView): boolean => events.length === 0;

interface HereProviderProps {
  address: Address;
  opening: Opening;
  children: ReactNode;
}

export function HereProvider({ address, opening, children }: HereProviderProps) {
  const client = useClient();
  const views = useLiveViews();
  const [file, setFile] = useState<LogFile>();
  const isFile = address.query.get("log") === FILE && file !== undefined;
  const [named = "", chosen = ""] = address.rest;
  const sessionId = chosen || undefined;
  const floorId = isFile ? file.floorId : named || undefined;
  const followed = floorId === undefined || isFile ? undefined : floorId;

  const sourceView = useCalm<LiveState>(sourceOf(views, { view: address.view, followed, isFile }), hasNoFloor);
  // After the stream above has its watcher.
  useEffect(() => opening.end(), [opening]);
  const live = followed === undefined ? NO_VIEW : (sourceView as FloorLiveView);

  const { resetAt } = live;
  // biome-ignore lint/correctness/useExhaustiveDependencies: after a reset the log is read anew.
  const log = useMemo(() => {
    if (isFile) return new FloorLog(file.floorId, undefined, file.events);
    return new FloorLog(followed ?? "", followed === undefined ? undefined : client);
  }, [client, followed, isFile, file, resetAt]);
  const logView = useCalm(log, isUnread);
  const [begun] = useState(begunIndex);
  const { events, revision } = logView;
  const first = events[0]?.position;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a log that grew at its beginning is read anew.
  const book = useMemo(() => new PictureBook(events), [events, first]);
  const {
    moment: addressed,
    awaited,
    move,
  } = useMoment(address, (moment) =>
    linkOf(address.view, { floorId, sessionId, isFile, query: address.query, ...moment }),
  );
  const { written } = addressed;
  const isForeign = written?.epoch !== undefined && first !== undefined && !first.startsWith(`${written.epoch}.`);
  const moment = isForeign ? { ...addressed, at: undefined } : addressed;
  const searchAt = (moment: Moment) => searchOf(queryOf({ ...moment, isFile }));
  const follow = useFollow({ moment, awaited, searchAt });
  const { at, span, only, isFolded } = moment;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `events` grows in place; the revision says so.
  const count = useMemo(() => (at === undefined ? events.length : countUpTo(events, at)), [events, at, revision]);
  const isPast = at !== undefined || isFile;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the position grows with each event of the floor, also with those that its stream does not carry: messages and titles. A reconnection may add more.
  useEffect(() => {
    if (followed !== undefined) log.refresh();
  }, [log, followed, live.position, sourceView.status === "open"]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: as above.
  const past = useMemo(() => (isPast ? book.at(count) : undefined), [book, count, isPast, revision]);
  const floor = past ?? (live.floor && { ducked: [], ...live.floor, decisions: live.decisions });

  const workspaceId = useWorkspace(client, { floor, floorId, sessionId, isLive: !isPast });
  const { agents, agentName } = useAgents(opening, { client, isOpen: sourceView.status === "open", workspaceId });

  let search: string | undefined;
  const here: Here = {
    floorId,
    sessionId,
    at,
    unknownAt: floorId !== undefined && at === undefined ? written?.at : undefined,
    awaited,
    span,
    only,
    isFolded,
    isFile,
    isLive: !isPast,
    floor,
    log: logView,
    resetAt: isFile ? undefined : resetAt,
    count,
    recent: live.events,
    sessionsAfter: (count) => book.sessionsAt(count),
    sessionThen: (id) => book.sessionAt(count, id),
    stateBegan: (session) => stateBegan(session, begun.of(events), count, isPast ? [] : live.events),
    newestSessions: (limit) => book.newestAt(count, limit),
    agents,
    agentName,
    status: sourceView,
    linkTo: (view, rest = {}) => {
      const isHere = rest.floorId === undefined || rest.floorId === floorId;
      const path = pathOf(view, pathPartsOf(rest.floorId ?? floorId, rest.sessionId));
      const chosen = { at, span, only, isFolded, isFile, ...("at" in rest && { at: rest.at }) };
      if (!isHere) return path + searchOf(queryOf({ ...chosen, span: undefined, isFile: false }));
      if ("at" in rest) return path + searchOf(queryOf(chosen));
      // Every row has a link, and all of them have this part.
      search ??= searchAt(moment);
      return path + search;
    },
    follow,
    lookAt: (floorSeq) => {
      const last = events.at(-1);
      move({ at: floorSeq === undefined || (last && !isFile && floorSeq > floorSeqOf(last)) ? undefined : floorSeq });
    },
    setSpan: (next) => move({ span: next }),
    setFilter: move,
    openFile: (opened) => {
      setFile(opened);
      location.hash = linkOf("timeline", { floorId: opened.floorId, at: undefined, isFile: true });
    },
  };
  return (
    <NamesContext value={agentName}>
      <HereContext value={here}>{children}</HereContext>
    </NamesContext>
  );
}

interface Link {
  floorId: string | undefined;
  sessionId?: string | undefined;
  at: number | undefined;
  span?: Moment["span"];
  only?: string | undefined;
  isFolded?: boolean;
  isFile: boolean;
  query?: URLSearchParams;
}

function linkOf(view: string, { floorId, sessionId, query, ...moment }: Link): string {
  return addressOf(view, pathPartsOf(floorId, sessionId), {
    ...Object.fromEntries(query ?? []),
    ...queryOf(moment),
  });
}

const pathPartsOf = (floorId: string | undefined, sessionId: string | undefined): string[] =>
  floorId === undefined ? [] : sessionId === undefined ? [floorId] : [floorId, sessionId];

const queryOf = ({ at, span, only, isFolded, isFile }: Omit<Link, "floorId" | "sessionId" | "query">) => ({
  at: at === undefined ? undefined : String(at),
  from: span && String(Math.floor(span.from)),
  to: span && String(Math.ceil(span.to)),
  only,
  fold: isFolded ? "yes" : undefined,
  log: isFile ? FILE : undefined,
});
