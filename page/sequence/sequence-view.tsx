import { type CSSProperties, memo, useLayoutEffect, useMemo, useRef, useState } from "react";
import { floorSeqOf } from "../log/log-event.ts";
import { useHere } from "../moment/here.tsx";
import { LogFileButtons } from "../moment/log-file-buttons.tsx";
import { LogGaps, NoEvents } from "../moment/log-gaps.tsx";
import { clockOf } from "../moment/time-text.ts";
import { LineText } from "../parts/event-text.tsx";
import { Rows } from "../parts/rows.tsx";
import { useMedia } from "../parts/screen/use-media.ts";
import { useWords } from "../words/words.tsx";
import { ExchangeButton, type ExchangeRowProps } from "./exchange-button.tsx";
import { type NameOf, useExchangeLine } from "./exchange-line.ts";
import { type Column, columnOf, columnsOf, exchangeIndex, firstFrom } from "./exchanges.ts";
import { FOLDED_PX, FoldedRow } from "./folded-row.tsx";
import styles from "./sequence.module.css";

const ROW_PX = 40;
const TIME_PX = 96;
const COLUMN_PX = 132;
/** The same value in the style sheet. */
const WIDTHS = { "--time-width": `${TIME_PX}px`, "--column-width": `${COLUMN_PX}px` } as CSSProperties;
/** Client, arbiter, and the column of all other sessions. */
const OTHER_COLUMNS = 3;
/** The smallest and the largest number of sessions with columns. */
const MIN_SESSIONS = 2;
const MAX_SESSIONS = 8;

/** The messages between client, arbiter, sessions and their runs, in the timeline's span up to the moment. */
export function SequenceView() {
  const { say, language, number } = useWords();
  const { log, count, at, span, setSpan, isFile, floorId, sessionId, lookAt, sessionThen } = useHere();
  const { events, revision } = log;
  const [index] = useState(exchangeIndex);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `events` grows in place; the revision says so.
  const { all, shown } = useMemo(() => {
    const { all } = index.of(events);
    const first = span ? firstFrom(all, "at", span.from) : 0;
    const end = Math.min(firstFrom(all, "index", count), span ? firstFrom(all, "at", span.to + 1) : all.length);
    return { all, shown: { first, end: Math.max(first, end) } };
  }, [index, events, revision, span, count]);
  const messages = shown.end - shown.first;
  const [box, fit] = useFit();
  const columns = useMemo(() => columnsOf(all, shown, fit, sessionId), [all, shown, fit, sessionId]);
  const nameOf = useNames(sessionThen);
  const width = TIME_PX + columns.length * COLUMN_PX;
  const now = events[count - 1];
  const isNarrow = useMedia("(max-width: 700px)");
  const Row = isNarrow ? FoldedRow : ExchangeRow;
  const unfolded = {
    width,
    head: <Heads columns={columns} nameOf={nameOf} />,
    behind: <LifeLines count={columns.length} />,
  };
  return (
    <section
      ref={box}
      className={styles["view"]}
      style={{ ...WIDTHS, "--columns-end": `${width}px` } as CSSProperties}
      aria-labelledby="sequence"
    >
      <header className={styles["head"]}>
        <h1 id="sequence">{say("sequence.title")}</h1>
        <span className={styles["quiet"]}>
          {say("sequence.count", { shown: number.format(messages), all: number.format(all.length) })}
          {span &&
            ` · ${say("sequence.span", { from: clockOf(span.from, language, true), to: clockOf(span.to, language, true) })}`}
          <LogGaps />
        </span>
        <button type="button" disabled={!span} onClick={() => setSpan(undefined)}>
          {say("sequence.whole")}
        </button>
        {floorId === undefined && <LogFileButtons />}
      </header>
      {messages === 0 && (
        <NoEvents
          className={styles["quiet"]}
          nothing={!floorId ? "sequence.nofloor" : span ? "sequence.emptyspan" : "sequence.empty"}
        />
      )}
      {messages > 0 && (
        <Rows
          key={String(isNarrow)}
          items={all}
          part={shown}
          rowHeight={isNarrow ? FOLDED_PX : ROW_PX}
          label={say("sequence.messages")}
          shownIndex={messages - 1}
          {...(isNarrow ? {} : unfolded)}
          row={(exchange) => (
            <Row
              exchange={exchange}
              columns={columns}
              nameOf={nameOf}
              isNow={(at !== undefined || isFile) && exchange.event === now}
              onChoose={() => lookAt(floorSeqOf(exchange.event))}
            />
          )}
        />
      )}
      <p className={styles["hint"]}>{say("sequence.choose")}</p>
    </section>
  );
}

function useNames(sessionThen: ReturnType<typeof useHere>["sessionThen"]): NameOf {
  const { say } = useWords();
  const { agentName } = useHere();
  return (party) => {
    if (!party) return say("sequence.others");
    if (party.role === "client" || party.role === "arbiter") return say(`sequence.${party.role}`);
    const { sessionId = "" } = party;
    const session = sessionThen(sessionId);
    const name = session ? agentName(session.agentId) : sessionId;
    return party.role === "run" ? `${name} · ${say("sequence.run")}` : name;
  };
}

interface HeadsProps {
  columns: readonly Column[];
  nameOf: NameOf;
}

function Heads({ columns, nameOf }: HeadsProps) {
  const { linkTo, sessionThen } = useHere();
  return (
    <div className={styles["heads"]} style={{ paddingLeft: TIME_PX }}>
      {columns.map((column, index) => {
        const session = column?.sessionId === undefined ? undefined : sessionThen(column.sessionId);
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: a moment's columns are shown in the elements that are there.
          <span key={index} style={{ width: COLUMN_PX }} data-role={column?.role}>
            {session && column?.role === "session" ? (
              <a href={linkTo("session", { sessionId: session.id })} title={session.title}>
                {nameOf(column)}
              </a>
            ) : (
              nameOf(column)
            )}
          </span>
        );
      })}
    </div>
  );
}

/** One for each column. As a background of the rows they would be painted again with each row. */
const LifeLines = memo(function LifeLines({ count }: { count: number }) {
  return Array.from({ length: count }, (_, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: a line is its index.
    <span key={index} className={styles["life"]} style={{ left: middleOf(index) }} />
  ));
});

/** The width of a column, in px. */
const middleOf = (index: number): number => TIME_PX + (index + 0.5) * COLUMN_PX;

function ExchangeRow({ exchange, columns, nameOf, isNow, onChoose }: ExchangeRowProps) {
  const { say } = useWords();
  const { from, to } = exchange;
  const [first, second] = [columnOf(columns, from), columnOf(columns, to)];
  const [start, end] = [middleOf(first), middleOf(second)];
  const other = columns[first] === undefined ? from : columns[second] === undefined ? to : undefined;
  const left = Math.min(start, end);
  const isSelf = start === end;
  const line = useExchangeLine(exchange);
  return (
    <ExchangeButton className={styles["row"]} exchange={exchange} isNow={isNow} onChoose={onChoose}>
      <span
        className={styles["arrow"]}
        role="img"
        // An `aria-label`, because the browser lays out a hidden text like a visible one.
        aria-label={say("sequence.fromto", { from: nameOf(from), to: nameOf(to) })}
        data-to={isSelf ? "self" : end > start ? "right" : "left"}
        style={{ left, width: isSelf ? 24 : Math.abs(end - start) }}
      />
      <span className={styles["text"]} style={{ left: left + 6, maxWidth: `calc(100% - ${left + 14}px)` }}>
        {other && `${nameOf(other)}: `}
        <LineText line={line} />
      </span>
    </ExchangeButton>
  );
}

/** The number of sessions with columns, so that all columns fit side by side if possible. */
function useFit() {
  const box = useRef<HTMLElement>(null);
  const [sessions, setSessions] = useState(MIN_SESSIONS);
  useLayoutEffect(() => {
    const element = box.current!;
    const look = () => {
      const columns = Math.floor((element.clientWidth - TIME_PX) / COLUMN_PX) - OTHER_COLUMNS;
      setSessions(Math.max(MIN_SESSIONS, Math.min(MAX_SESSIONS, Math.floor(columns / 2))));
    };
    const watching = new ResizeObserver(look);
    watching.observe(element);
    look();
    return () => watching.disconnect();
  }, []);
  return [box, sessions] as const;
}
