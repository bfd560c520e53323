import { type EventLine, lineOf } from "../log/event-line.ts";
import type { LogEvent } from "../log/log-event.ts";
import { useHere } from "../moment/here.tsx";
import { useWords } from "../words/words.tsx";

/** An event as a line: what happened, and why. */
export function EventText({ event }: { event: LogEvent }) {
  const { say } = useWords();
  const { agentName } = useHere();
  return <LineText line={lineOf(event, { say, agentName })} />;
}

/** The same elements for every line, and one text: a list that is scrubbed changes texts, and makes no elements. */
export function LineText({ line: { sign = "", name = "", text } }: { line: EventLine }) {
  return (
    <>
      <span aria-hidden="true">{sign}</span>
      <code>{name}</code>
      {` ${text}`}
    </>
  );
}
