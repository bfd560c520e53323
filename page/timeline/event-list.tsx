import { useState } from "react";
import { type LogEvent, placeOf, timeOf } from "../log/log-event.ts";
import { LogIndex } from "../log/log-index.ts";
import { useHere } from "../moment/here.tsx";
import { clockOf } from "../moment/moment-text.ts";
import { EventText } from "../parts/event-text.tsx";
import { Rows } from "../parts/rows.tsx";
import type { WordKey } from "../words/en.ts";
import { useWords } from "../words/words.tsx";
import { firstAbove } from "./lanes.ts";
import styles from "./timeline.module.css";

const KINDS = ["all", "decisions", "refused", "failed", "transitions"] as const;
type Kind = (typeof KINDS)[number];

/** The log as sentences, oldest first; it follows the moment, and choosing a line chooses its moment. */
export function EventList() {
  const { say, language, number } = useWords();
  const { log, count, lookAt } = useHere();
  const [kind, setKind] = useState<Kind>("all");
  const { events } = log;
  const [index] = useState(kindIndex);
  const shown = index.of(events)[kind];
  const current = firstAbove(shown, count - 1) - 1;
  return (
    <section className={styles["log"]} aria-labelledby="log">
      <header>
        <h2 id="log">{say("log.title")}</h2>
        <select aria-label={say("log.filter")} value={kind} onChange={({ target }) => setKind(target.value as Kind)}>
          {KINDS.map((each) => (
            <option key={each} value={each}>
              {say(`log.${each}` satisfies WordKey)}
            </option>
          ))}
        </select>
        <small>{say("log.count", { shown: number.format(shown.length), all: number.format(events.length) })}</small>
      </header>
      <Rows
        items={shown}
        rowHeight={32}
        label={say("log.events")}
        shownIndex={current}
        row={(place, index) => (
          <button
            type="button"
            className={styles["event"]}
            aria-current={index === current ? "true" : undefined}
            onClick={() => lookAt(placeOf(events[place]!))}
          >
            <time>{clockOf(timeOf(events[place]!), language, true)}</time> <EventText event={events[place]!} />
          </button>
        )}
      />
    </section>
  );
}

/** For each kind, the places of its events in the log. */
const kindIndex = () =>
  new LogIndex<Record<Kind, number[]>>(
    () => ({ all: [], decisions: [], refused: [], failed: [], transitions: [] }),
    (index, event, place) => {
      for (const kind of KINDS) if (isOf(event, kind)) index[kind].push(place);
    },
  );

function isOf(event: LogEvent, kind: Kind): boolean {
  switch (kind) {
    case "all":
      return true;
    case "decisions":
      return event.type === "arbitration";
    case "refused":
      return event.type === "arbitration" && event.data.outcome === "rejected";
    case "failed":
      return event.type === "error" || (event.type === "session_transition" && event.data.event === "fail");
    case "transitions":
      return event.type === "session_transition";
  }
}
