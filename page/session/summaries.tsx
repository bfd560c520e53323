import { useState } from "react";
import type { SessionMessage } from "../../src/client/live/live-session.ts";
import type { Session } from "../../src/protocol/session.ts";
import { useClient } from "../../src/react/provider.ts";
import { useHere } from "../moment/here.tsx";
import { isExternal } from "../parts/external-agent.ts";
import { useAct } from "../parts/use-act.ts";
import { useWords } from "../words/words.tsx";
import { Markdown } from "./markdown.tsx";
import styles from "./session.module.css";

/** A summary, folded: it repeats what stands above it. */
export function Summary({ message: { content } }: { message: SessionMessage }) {
  const { say } = useWords();
  return (
    <details className={styles["summary"]}>
      <summary>{say("summary.title")}</summary>
      <Markdown text={content} isStreaming={false} />
    </details>
  );
}

/**
 * Requests a summary of a live session, which arrives as a message. The catalogue's answer does not tell which agents
 * write summaries: for the others, the server's refusal is shown.
 */
export function Summarise({ session, isEmpty }: { session: Session; isEmpty: boolean }) {
  const { say } = useWords();
  const client = useClient();
  const { agents, isLive } = useHere();
  const { act, refusal, isBusy } = useAct();
  const { id, state, summaryId } = session;
  const [request, setRequest] = useState<{ former: string | undefined }>();
  if (!isLive || state === "archived" || isExternal(agents, session)) return undefined;
  const ask = async () => {
    setRequest({ former: summaryId });
    if (!(await act(() => client.summarizeSession(id)))) setRequest(undefined);
  };
  const isAwaited = request !== undefined && request.former === summaryId;
  return (
    <>
      <button type="button" disabled={isBusy || isEmpty} onClick={() => void ask()}>
        {say("summary.write")}
      </button>
      <span role="status" className={styles["quiet"]}>
        {isAwaited && !isBusy && say("summary.requested")}
      </span>
      {refusal && <span role="alert">{refusal.text}</span>}
    </>
  );
}
