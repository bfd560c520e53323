import { type ReactNode, type RefObject, useLayoutEffect, useRef, useState } from "react";
import type { Session } from "../../src/protocol/session.ts";
import { useClient } from "../../src/react/hooks.ts";
import { lastPauseOf, lastWordsOf } from "../log/conversation-log.ts";
import type { FloorPicture } from "../log/floor-picture.ts";
import { useHere } from "../moment/here.tsx";
import { whenOf } from "../moment/time-text.ts";
import { becauseOf, howPaused } from "../parts/because.ts";
import { Outcome } from "../parts/commands/outcome.tsx";
import { SessionControls, SureToAbort } from "../parts/commands/session-controls.tsx";
import { useStateSentence } from "../parts/commands/state-sentence.ts";
import { isExternal } from "../parts/external-agent.ts";
import { LeaseLeft } from "../parts/lease-left.tsx";
import { type Look, lookOf } from "../parts/look.ts";
import { useMedia } from "../parts/screen/use-media.ts";
import { StateSign } from "../parts/state-sign.tsx";
import { useAct } from "../parts/use-act.ts";
import { failureText } from "../words/failure-text.ts";
import { useWords } from "../words/words.tsx";
import { effectsOf, type Fate, fateOf, type PredictedEffect, type WhatIf } from "./agents/what-if.ts";
import { decisionBehind } from "./decision-behind.ts";
import { DecisionReason } from "./decisions.tsx";
import styles from "./floor.module.css";
import { Talk } from "./talk.tsx";

/** The number of drawn cards; further sessions are only counted. */
const MAX_CARDS = 24;

/**
 * Where the agents stand below the stack, or are pressed by a finger: a card for the considered session would move
 * them, so the session is named in the line of its heading.
 */
const STILL = "(max-width: 700px), (any-pointer: coarse)";

/** The floor as a stack: the holder on top, the sessions paused for it beneath, the waiting sessions beside. */
export function Stack({ floor, whatIf }: { floor: FloorPicture; whatIf: WhatIf | undefined }) {
  const { say } = useWords();
  const { ducked, paused, queued } = floor;
  const keyOf = useCardKey();
  const root = useRef<HTMLDivElement>(null);
  useMoves(root);
  const isStill = useMedia(STILL);
  const { fate, effects } = outcomeOf(whatIf);
  const named = isStill ? fate : undefined;
  const carded = isStill ? undefined : fate;
  const ghost = whatIf && fate && <Ghost agentId={whatIf.agentId} fate={fate} isNamed={isStill} />;
  // Sessions are heard beneath the holder, so without them there is no heading of their own.
  const isNamedInFront = named === "front" || (named === "beneath" && ducked.length === 0);
  return (
    <div ref={root} className={styles["columns"]}>
      <div>
        <Heading ghost={isNamedInFront && ghost}>{say("stack.holder")}</Heading>
        {carded === "front" && ghost}
        <Front floor={floor} effects={effects} />
        {(ducked.length > 0 || carded === "beneath") && (
          <Heading ghost={named === "beneath" && ghost}>{say("stack.ducked")}</Heading>
        )}
        {carded === "beneath" && ghost}
        {ducked.map((session, index) => (
          <Card key={keyOf(session, index)} session={session} effect={effects?.get(session.id)} />
        ))}
        <Heading>{say("stack.paused", { count: paused.length })}</Heading>
        {paused.length === 0 && <p className={styles["quiet"]}>{say("stack.nonepaused")}</p>}
        <Cards sessions={paused} effects={effects} />
      </div>
      <div>
        <Heading ghost={named === "queued" && ghost}>{say("stack.queued", { count: queued.length })}</Heading>
        {queued.length === 0 && carded !== "queued" && <p className={styles["quiet"]}>{say("stack.nonequeued")}</p>}
        <Cards sessions={queued} effects={effects} isNumbered />
        {carded === "queued" && ghost}
      </div>
    </div>
  );
}

const outcomeOf = (whatIf: WhatIf | undefined) =>
  whatIf?.decision ? { fate: fateOf(whatIf.decision), effects: effectsOf(whatIf.decision) } : {};

type Effects = ReadonlyMap<string, PredictedEffect> | undefined;

/** At a past moment cards are keyed by their index: a step may change all sessions, and no card has state to keep. */
function useCardKey(): (session: Session, index: number) => string | number {
  const { isLive } = useHere();
  return ({ id }, index) => (isLive ? id : index);
}

/** The holder, or a line that says that there is none. */
function Front({ floor: { holder, reserved }, effects }: { floor: FloorPicture; effects: Effects }) {
  const { say } = useWords();
  const keyOf = useCardKey();
  if (holder) return <Card key={keyOf(holder, 0)} session={holder} isFront effect={effects?.get(holder.id)} />;
  return (
    <p className={styles["free"]}>
      {reserved ? say("stack.reserved", { session: reserved.sessionId }) : say("stack.free")}
    </p>
  );
}

/** The considered session where it would be, as a card or in the line of a heading. */
function Ghost({ agentId, fate, isNamed }: { agentId: string; fate: Fate; isNamed: boolean }) {
  const { say } = useWords();
  const { agentName } = useHere();
  return (
    <p className={styles[isNamed ? "named" : "ghost"]} data-where={fate}>
      {agentName(agentId)}{" "}
      <small>{say(fate === "queued" ? "whatif.waits" : fate === "beneath" ? "whatif.beneath" : "whatif.comes")}</small>
    </p>
  );
}

/** @param ghost the considered session, if it is named here */
function Heading({ ghost, children }: { ghost?: ReactNode; children: ReactNode }) {
  return (
    <div className={styles["heading"]}>
      <h2>{children}</h2>
      {ghost}
    </div>
  );
}

interface CardsProps {
  sessions: readonly Session[];
  effects: Effects;
  /** Whether the cards show their ranks, from 1. */
  isNumbered?: boolean;
}

function Cards({ sessions, effects, isNumbered }: CardsProps): ReactNode {
  const { say } = useWords();
  const keyOf = useCardKey();
  return (
    <>
      {sessions.slice(0, MAX_CARDS).map((session, index) => (
        <Card
          key={keyOf(session, index)}
          session={session}
          rank={isNumbered ? index + 1 : undefined}
          effect={effects?.get(session.id)}
        />
      ))}
      {sessions.length > MAX_CARDS && (
        <p className={styles["quiet"]}>{say("stack.more", { count: sessions.length - MAX_CARDS })}</p>
      )}
    </>
  );
}

interface CardProps {
  session: Session;
  isFront?: boolean;
  /** In the queue, from 1. */
  rank?: number | undefined;
  /** The effect of the considered start on the session. */
  effect?: PredictedEffect | undefined;
}

function Card({ session, isFront = false, rank, effect }: CardProps) {
  const { say } = useWords();
  const client = useClient();
  const { agents, agentName, isLive, floorId = "", linkTo } = useHere();
  const lastCommand = useAct();
  const { act, isBusy } = lastCommand;
  const [isAborting, setAborting] = useState(false);
  const { id, title, agentId, priority, state } = session;
  const look: Look = lookOf(session);
  const stateSentence = useStateSentence();
  const name = agentName(agentId);
  const disabled = !isLive || isBusy;
  const controls = { session, disabled, act, onAborting: setAborting };
  return (
    <article
      className={styles["card"]}
      data-card={id}
      data-front={isFront}
      data-look={look}
      data-affected={effect !== undefined}
      aria-label={`${name}: ${say(`state.${look}`)}`}
    >
      <header>
        {rank !== undefined && <span className={styles["rank"]}>{rank}.</span>}
        <StateSign look={look} />
        <a data-row href={linkTo("session", { floorId, sessionId: id })}>
          <b>{name}</b>
        </a>
        <span className={styles["priority"]} title={say("agents.priority", { value: priority })}>
          {priority}
        </span>
      </header>
      {isFront && (
        <span className={styles["meter"]} aria-hidden="true">
          <span style={{ width: `${priority}%` }} />
        </span>
      )}
      <div className={styles["line"]}>
        <p className={styles["title"]}>{title}</p>
        {effect && (
          <p className={styles["would"]}>
            {say(`whatif.becomes.${effect.becomes}`)}
            {effect.level !== undefined && ` (${effect.level} dB)`}
          </p>
        )}
      </div>
      <StateLine session={session} isFront={isFront} />
      {session.failure && (
        <p className={styles["failure"]}>
          {failureText({ code: session.failure.errorCode, message: session.failure.message }, say)}
        </p>
      )}
      {isFront && <LastWords session={session} />}
      <footer>
        <a href={linkTo("session", { floorId, sessionId: id })}>{say("session.talk")}</a>
        <SessionControls {...controls} />
        {state === "created" && session.queuedAt === undefined && !session.schedule && (
          <button
            type="button"
            disabled={disabled}
            onClick={() => void act(() => client.activateSession(id), stateSentence)}
          >
            {say("session.activate")}
          </button>
        )}
        <button
          type="button"
          data-risky
          disabled={disabled}
          onClick={() => void act(() => client.archiveSession(id), stateSentence)}
        >
          {say("session.archive")}
        </button>
      </footer>
      <SureToAbort {...controls} isAborting={isAborting} />
      <Outcome of={lastCommand} />
      {isFront && !isExternal(agents, session) && <Talk sessionId={id} />}
    </article>
  );
}

/** Since when the session is in its state, how, and why. */
function StateLine({ session, isFront }: { session: Session; isFront: boolean }) {
  const { say } = useWords();
  const { interruptible, level, activity } = session;
  return (
    <p className={styles["quiet"]}>
      <Since session={session} />
      {level !== undefined && ` · ${level} dB`}
      {isHeld(session) && ` · ${say("stack.held", { activity: say(`state.${activity}`) })}`}
      {isFront && ` · ${say(interruptible ? "agents.interruptible" : "agents.uninterruptible")}`}
      {session.leaseMs !== undefined && <LeaseLeft session={session} />}
      {!isFront && <Reason session={session} />}
    </p>
  );
}

/** Whether a run waits until the session resumes. A failed one is over. */
const isHeld = ({ state, activity }: Session): boolean =>
  state === "paused" && (activity === "running" || activity === "waiting");

/** When the state of the session began. */
function Since({ session }: { session: Session }) {
  const { say, language } = useWords();
  const began = useHere().stateBegan(session);
  return began !== undefined && say("stack.since", { time: whenOf(began, language) });
}

/** Why a session is not in front, in a few words. */
function Reason({ session }: { session: Session }) {
  const { say } = useWords();
  const { agentName, floor, log, count } = useHere();
  const { id, state, pausedBy } = session;
  const decision = decisionBehind(floor?.decisions ?? [], session);
  if (state === "paused" && pausedBy !== undefined) {
    const by = decision?.challenger.agentId;
    if (by !== undefined) return ` · ${say("pausedby.whom", { who: agentName(by) })}`;
    const because = becauseOf(lastPauseOf(log.events, id, count), say);
    return ` · ${howPaused(pausedBy, because, say)}`;
  }
  if (!decision) return undefined;
  const { challenger } = decision;
  // The reason is the challenger's: here it would read as this session's.
  if (challenger.sessionId !== id) return ` · ${say("stack.beneath", { who: agentName(challenger.agentId) })}`;
  return (
    <>
      {" · "}
      <DecisionReason decision={decision} />
    </>
  );
}

/** The last message of the session that has the floor. */
function LastWords({ session: { id } }: { session: Session }) {
  const { log, count } = useHere();
  const words = lastWordsOf(log.events, id, count);
  return words === undefined ? undefined : <p className={styles["words"]}>{words}</p>;
}

const MOVE_MS = 200;
/** With more changes than this at once, nothing is animated: the motion would not explain anything. */
const MAX_MOVES = 12;

/** Positions are measured again after this time without a change, in ms, because measuring forces a layout. */
const QUIET_MS = 100;

/** Animates cards from where they were. During fast changes nothing is animated. */
function useMoves(root: RefObject<HTMLElement | null>): void {
  const known = useRef<ReturnType<typeof offsetsOf>>(undefined);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useLayoutEffect(() => {
    const before = known.current;
    known.current = undefined;
    if (before && !matchMedia("(prefers-reduced-motion: reduce)").matches) travel(root.current!, before);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      known.current = offsetsOf(root.current!);
    }, QUIET_MS);
  });
  // With the stack, not after the next paint: until then the timer would find no stack.
  useLayoutEffect(() => () => clearTimeout(timer.current), []);
}

const cardsIn = (root: HTMLElement) => [...root.querySelectorAll<HTMLElement>("[data-card]")];
/** Relative to the stack, so that scrolling the page moves no card. */
function offsetsOf(root: HTMLElement): Map<string, { left: number; top: number }> {
  const origin = root.getBoundingClientRect();
  return new Map(
    cardsIn(root).map((card) => {
      const { left, top } = card.getBoundingClientRect();
      return [card.dataset["card"]!, { left: left - origin.left, top: top - origin.top }];
    }),
  );
}

function travel(root: HTMLElement, before: ReturnType<typeof offsetsOf>): void {
  const now = offsetsOf(root);
  const moved = cardsIn(root).flatMap((card) => {
    const [from, to] = [before.get(card.dataset["card"]!), now.get(card.dataset["card"]!)!];
    const [dx, dy] = from ? [from.left - to.left, from.top - to.top] : [0, 0];
    return Math.abs(dx) > 1 || Math.abs(dy) > 1 ? [{ card, dx, dy }] : [];
  });
  if (moved.length > MAX_MOVES) return;
  for (const { card, dx, dy } of moved) {
    const from = `translate(${dx}px, ${dy}px)`;
    card.animate([{ transform: from }, { transform: "none" }], { duration: MOVE_MS, easing: "ease-out" });
  }
}
