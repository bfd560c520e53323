import { type EventLine, lineOf } from "../log/event-line.ts";
import type { LogEvent } from "../log/log-event.ts";
import { useAgentName } from "../moment/here.tsx";
import { useWords } from "../words/words.tsx";

/** An event as a line: the event and its reason. */
export function EventText({ event }: { event: LogEvent }) {
  const { say } = useWords();
  const agentName = useAgentName();
  return <LineText line={lineOf(event, { say, agentName })} />;
}

/**
 * Every line has the same elements with one text node, so that scrubbing a list changes texts and creates no elements.
 */
export function LineText({ line: { sign = "", name = "", text } }: { line: EventLine }) {
  return (
    <>
      <span aria-hidden="true">{sign}</span>
      <code>{name}</code>
      {` ${text}`}
    </>
  );
}
