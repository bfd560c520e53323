import { data as charts } from "virtual:charts";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { arbiterState, sessionsOn } from "../../src/client/floor-after.ts";
import type { Session } from "../../src/protocol/session.ts";
import type { FloorPicture } from "../log/floor-picture.ts";
import { type Here, useHere } from "../moment/here.tsx";
import { clockOf } from "../moment/time-text.ts";
import { isExternal } from "../parts/external-agent.ts";
import { Fold } from "../parts/fold.tsx";
import { Tree } from "../parts/tree.tsx";
import { usePaced } from "../parts/use-paced.ts";
import type { WordKey } from "../words/en.ts";
import { useWords } from "../words/words.tsx";
import type { Chart } from "./chart.ts";
import { ChartFigure } from "./chart-figure.tsx";
import { EventsList } from "./events-list.tsx";
import styles from "./machine.module.css";
import { acceptedIn, statesOf } from "./machine-state.ts";
import { type ChartsProps, chartKeyOf, SessionCharts, useTransitions } from "./session-charts.tsx";

/** The sessions in the list; other sessions are reached from the other views. */
const MAX_CHOICES = 100;
/** The shortest interval between updates of the list, in ms. */
const CHOICES_MS = 250;

/**
 * The machines of the floor and of one of its sessions, drawn from their definitions, with the current states
 * highlighted.
 */
export function MachineView() {
  const { say } = useWords();
  const here = useHere();
  const { floorId, floor, sessionId } = here;
  const present = floor ? sessionsOn(floor) : [];
  const chosen = sessionId ?? (present[0] ?? here.newestSessions(1)[0])?.id;
  const session =
    chosen === undefined ? undefined : (present.find(({ id }) => id === chosen) ?? here.sessionThen(chosen));
  const transitions = useTransitions(chosen);
  const [arbiter, machine] = charts as [Chart, Chart];
  return (
    <section className={styles["view"]} aria-labelledby="machine">
      <header className={styles["head"]}>
        <h1 id="machine">{say("machine.title")}</h1>
        <SessionChoice session={session} />
        {floorId === undefined && <p className={styles["quiet"]}>{say("machine.nofloor")}</p>}
        {floorId !== undefined && !floor && <p className={styles["quiet"]}>{say("floor.loading")}</p>}
        {floorId !== undefined && floor && !session && (
          <p className={styles["quiet"]}>{say(chosen === undefined ? "machine.nosession" : absenceOf(here))}</p>
        )}
      </header>
      <div className={styles["charts"]}>
        <SessionCharts machine={machine} session={session} transitions={transitions} />
        <ArbiterChart key={floorId} arbiter={arbiter} floor={floor} />
      </div>
      <aside className={styles["aside"]}>
        {session && <Facts session={session} machine={machine} transitions={transitions} />}
        {chosen === undefined && <p className={styles["quiet"]}>{say("machine.what")}</p>}
      </aside>
    </section>
  );
}

/** Why the chosen session is not shown. */
function absenceOf({ log, isLive }: Here): WordKey {
  if (log.hasOlder) return "session.loading";
  return isLive ? "session.foreign" : "session.notthen";
}

/** Present sessions first, then the newest ones. */
function choicesOf({ floor, newestSessions }: Here): Session[] {
  const known = new Map((floor ? sessionsOn(floor) : []).map((session) => [session.id, session]));
  for (const session of newestSessions(MAX_CHOICES)) if (!known.has(session.id)) known.set(session.id, session);
  return [...known.values()].slice(0, MAX_CHOICES);
}

function SessionChoice({ session }: { session: Session | undefined }) {
  const { say } = useWords();
  const here = useHere();
  const { agentName, linkTo, follow, floorId = "" } = here;
  const paced = usePaced(here, CHOICES_MS);
  const choices = useMemo(() => choicesOf(paced), [paced]);
  const choiceOf = useCallback(
    (each: Session) => <Choice key={each.id} session={each} agentName={agentName} />,
    [agentName],
  );
  const options = useMemo(() => choices.map(choiceOf), [choices, choiceOf]);
  const isListed = session === undefined || choices.some(({ id }) => id === session.id);
  if (!session && choices.length === 0) return undefined;
  return (
    <select
      className={styles["choice"]}
      aria-label={say("machine.session")}
      value={session?.id ?? ""}
      onChange={({ target }) => follow(linkTo("machine", { floorId, sessionId: target.value }))}
    >
      {!session && <option value="">{say("machine.choose")}</option>}
      {isListed ? options : [choiceOf(session), ...options]}
    </select>
  );
}

function Choice({ session: { id, agentId, title, state }, agentName }: { session: Session } & Pick<Here, "agentName">) {
  const { say } = useWords();
  return (
    <option value={id}>
      {agentName(agentId)} · {title} · {say(`machine.state.${state}`)}
    </option>
  );
}

/** The arbiter's arrows are found by the states before and after, because its transitions have no events. */
function ArbiterChart({ arbiter, floor }: { arbiter: Chart; floor: FloorPicture | undefined }) {
  const { say } = useWords();
  const state = floor && arbiterState(floor);
  const before = useRef(state);
  const [traversed, setTraversed] = useState<{ arrow: number; key: string }>();
  const [region] = arbiter.regions;
  useEffect(() => {
    const from = before.current;
    before.current = state;
    if (from === undefined || state === undefined || from === state) return;
    const arrow = region!.arrows.findIndex((each) => each.to === state && each.from.includes(from));
    setTraversed((last) => (arrow < 0 ? undefined : { arrow, key: String(Number(last?.key ?? 0) + 1) }));
  }, [state, region]);
  return <ChartFigure title={say("machine.arbiter")} region={region!} state={state} traversed={traversed} />;
}

function Facts({ session, machine, transitions }: ChartsProps & { session: Session }) {
  const { say, language } = useWords();
  const { agents, agentName, isLive } = useHere();
  const refusesTurns = isExternal(agents, session);
  const { accepted, refused } = useMemo(
    () => acceptedIn(machine, statesOf({ state: session.state, activity: session.activity }), refusesTurns),
    [machine, session.state, session.activity, refusesTurns],
  );
  return (
    <>
      {/* Commands are given now: of a past moment there is nothing to keep for one session. */}
      <EventsList key={isLive ? session.id : ""} session={session} accepted={accepted} refused={refused} />
      <section aria-labelledby="transitions">
        <h2 id="transitions">{say("machine.transitions")}</h2>
        {transitions.length === 0 && <p className={styles["quiet"]}>{say("machine.notransitions")}</p>}
        <ol className={styles["transitions"]}>
          {transitions.toReversed().map((each, index) => {
            const { from, to, event, by, activity, level, reason } = each.data;
            return (
              <li key={isLive ? chartKeyOf(each) : index}>
                <time>{clockOf(Date.parse(each.timestamp), language, true)}</time>{" "}
                <b className={styles["mono"]}>{event}</b>{" "}
                {activity ? `${from} (${activity.from} → ${activity.to})` : `${from} → ${to}`}
                {level !== undefined && ` ${level} dB`}
                {reason !== undefined && <small> {reason}</small>}
                {by && <small> · {say("log.by", { who: agentName(by.agentId) })}</small>}
              </li>
            );
          })}
        </ol>
      </section>
      <Fold className={styles["context"]} summary={say("machine.context")}>
        {() => <Tree value={session} />}
      </Fold>
    </>
  );
}
