import type { ReactNode } from "react";
import { floorSeqOf, timeOf } from "../log/log-event.ts";
import { useHere } from "../moment/here.tsx";
import { clockOf } from "../moment/time-text.ts";
import { EventText } from "../parts/event-text.tsx";
import { Rows } from "../parts/rows.tsx";
import type { WordKey } from "../words/en.ts";
import { useWords } from "../words/words.tsx";
import { KINDS, type Kind, kindOf } from "./kinds.ts";
import { firstAbove } from "./lanes/lanes.ts";
import { Legend } from "./legend.tsx";
import styles from "./timeline.module.css";

interface Props {
  kind: Kind;
  onKind: (kind: Kind) => void;
  /** The indices in the log of the events of that kind, ascending. */
  shown: readonly number[];
  /** The button that shows the details of the current event. */
  opener: ReactNode;
}

/** The log as sentences, oldest first. The list follows the moment, and choosing a line chooses its moment. */
export function EventList({ kind, onKind, shown, opener }: Props) {
  const { say, language, number } = useWords();
  const { log, count, lookAt } = useHere();
  const { events } = log;
  const current = firstAbove(shown, count - 1) - 1;
  return (
    <section className={styles["log"]} aria-labelledby="log">
      <header>
        <h2 id="log">{say("log.title")}</h2>
        <select aria-label={say("log.filter")} value={kind} onChange={({ target }) => onKind(kindOf(target.value))}>
          {KINDS.map((each) => (
            <option key={each} value={each}>
              {say(`log.${each}` satisfies WordKey)}
            </option>
          ))}
        </select>
        <small>{say("log.count", { shown: number.format(shown.length), all: number.format(events.length) })}</small>
        {opener}
        {shown.length === 0 && kind !== "all" && (
          <>
            <span>{say("log.nothing", { kind: say(`log.${kind}` satisfies WordKey) })}</span>
            <button type="button" onClick={() => onKind("all")}>
              {say("log.all")}
            </button>
          </>
        )}
        <Legend />
      </header>
      <Rows
        items={shown}
        rowHeight={32}
        label={say("log.events")}
        shownIndex={current}
        row={(eventIndex, index) => (
          <button
            type="button"
            className={styles["event"]}
            aria-current={index === current ? "true" : undefined}
            onClick={() => lookAt(floorSeqOf(events[eventIndex]!))}
          >
            <time>{clockOf(timeOf(events[eventIndex]!), language, true)}</time>{" "}
            <EventText event={events[eventIndex]!} />
          </button>
        )}
      />
    </section>
  );
}
