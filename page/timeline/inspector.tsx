import { useState } from "react";
import { useHere } from "../moment/here.tsx";
import { Sheet } from "../parts/screen/sheet.tsx";
import { useMedia } from "../parts/screen/use-media.ts";
import { usePaced } from "../parts/use-paced.ts";
import { useWords } from "../words/words.tsx";
import styles from "./event-details.module.css";
import { EventDetails } from "./event-details.tsx";

/** The shortest interval between updates of the details, in ms: their elements differ from event to event. */
const DETAILS_MS = 250;

/**
 * The details of the event at the shown moment: beside the lanes while a moment is chosen, and on a narrow screen a
 * sheet on request.
 */
export function useInspector() {
  const { say } = useWords();
  const { log, count, at, isFile } = useHere();
  const isNarrow = useMedia("(max-width: 1199px)");
  const [isClosed, setClosed] = useState(false);
  const [hasSheet, setSheet] = useState(false);
  const event = usePaced(log.events[count - 1], DETAILS_MS);
  const isChosen = event !== undefined && (at !== undefined || isFile);
  const isBeside = isChosen && !isNarrow && !isClosed;
  const title = say("event.title");
  const inspector = isBeside ? (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard.
    <section className={styles["inspector"]} tabIndex={0} aria-label={title}>
      <header>
        <h2>{title}</h2>
        <button type="button" onClick={() => setClosed(true)}>
          {say("close")}
        </button>
      </header>
      <EventDetails event={event} />
    </section>
  ) : (
    isNarrow &&
    hasSheet &&
    event && (
      <Sheet label={title} onClose={() => setSheet(false)}>
        <EventDetails event={event} />
      </Sheet>
    )
  );
  const isOffered = isNarrow ? event !== undefined : isChosen && isClosed;
  const opener = isOffered && (
    <button
      type="button"
      aria-haspopup={isNarrow ? "dialog" : undefined}
      onClick={() => (isNarrow ? setSheet(true) : setClosed(false))}
    >
      {say("event.details")}
    </button>
  );
  return { inspector, opener, isBeside };
}
