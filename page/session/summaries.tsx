import { useState } from "react";
import type { SessionMessage } from "../../src/client/conversation-reader.ts";
import type { SessionLiveView } from "../../src/client/live/live-session.ts";
import type { Session } from "../../src/protocol/session.ts";
import { useClient } from "../../src/react/hooks.ts";
import { useHere } from "../moment/here.tsx";
import { clockOf } from "../moment/time-text.ts";
import { Outcome } from "../parts/commands/outcome.tsx";
import { isExternal } from "../parts/external-agent.ts";
import { useAct } from "../parts/use-act.ts";
import { failureText } from "../words/failure-text.ts";
import { useWords } from "../words/words.tsx";
import { Markdown } from "./markdown.tsx";
import styles from "./session.module.css";

/** A summary, folded, because it repeats the messages above it. */
export function FoldedSummary({ message: { content } }: { message: SessionMessage }) {
  const { say } = useWords();
  return (
    <details className={styles["summary"]}>
      <summary>{say("summary.title")}</summary>
      <Markdown text={content} isStreaming={false} />
    </details>
  );
}

interface Props {
  session: Session;
  isEmpty: boolean;
  /** Why the last attempt at a summary failed. */
  failure: SessionLiveView["summaryFailure"];
}

/**
 * Requests a summary of a live session, which arrives as a message, or ends with the reason. The catalogue's answer
 * does not say which agents write summaries: for the others, the server's refusal is shown.
 */
export function Summarise({ session, isEmpty, failure }: Props) {
  const { say } = useWords();
  const client = useClient();
  const { agents, isLive } = useHere();
  const lastCommand = useAct();
  const { act, isBusy } = lastCommand;
  const { id, state, summaryId } = session;
  const [request, setRequest] = useState<{ former: string | undefined; failure: Props["failure"] }>();
  if (!isLive || state === "archived" || isExternal(agents, session)) return undefined;
  const requestSummary = async () => {
    setRequest({ former: summaryId, failure });
    if (!(await act(() => client.summarizeSession(id)))) setRequest(undefined);
  };
  const isOpen = request !== undefined && request.former === summaryId && !isBusy;
  const ended = isOpen && failure !== request.failure ? failure : undefined;
  return (
    <>
      <button type="button" disabled={isBusy || isEmpty} onClick={() => void requestSummary()}>
        {say("summary.write")}
      </button>
      <span role="status" className={styles["quiet"]}>
        {isOpen && !ended && say("summary.requested")}
      </span>
      {ended && <SummaryFailure failure={ended} />}
      <Outcome of={lastCommand} />
    </>
  );
}

function SummaryFailure({
  failure: { errorCode: code, message, retryAt },
}: {
  failure: NonNullable<Props["failure"]>;
}) {
  const { say, language } = useWords();
  if (code === undefined) return <span role="alert">{say("summary.unneeded")}</span>;
  const reason = failureText({ code, message }, say);
  return (
    <span role="alert">
      {retryAt === undefined
        ? say("summary.failed", { reason })
        : say("summary.again", { reason, time: clockOf(retryAt, language) })}
    </span>
  );
}
