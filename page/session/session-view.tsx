import { useMemo, useRef, useState } from "react";
import type { SessionLiveView } from "../../src/client/live/live-session.ts";
import type { Message } from "../../src/protocol/message.ts";
import type { Session } from "../../src/protocol/session.ts";
import { useClient } from "../../src/react/provider.ts";
import { useSession } from "../../src/react/use-session.ts";
import { type Transcript, transcriptOf } from "../log/conversation-log.ts";
import { useHere } from "../moment/here.tsx";
import { useAct } from "../parts/use-act.ts";
import { useWords } from "../words/words.tsx";
import { Composer } from "./composer.tsx";
import { Conversation } from "./conversation.tsx";
import { SessionFacts } from "./facts/session-facts.tsx";
import { Interactions } from "./interactions.tsx";
import styles from "./session.module.css";
import { SessionHead } from "./session-head.tsx";
import { SessionList } from "./session-list.tsx";

/** A conversation as it is written, and all others beside it. */
export function SessionView() {
  const { say } = useWords();
  const { sessionId, isLive } = useHere();
  return (
    <section className={styles["view"]} data-chosen={sessionId !== undefined} aria-label={say("session.title")}>
      <SessionList />
      {sessionId === undefined && (
        <div className={styles["empty"]}>
          <h1>{say("session.title")}</h1>
          <p>{say("session.choose")}</p>
        </div>
      )}
      {sessionId !== undefined && isLive && <LiveConversation key={sessionId} id={sessionId} />}
      {sessionId !== undefined && !isLive && <PastConversation id={sessionId} />}
    </section>
  );
}

/** What the session's stream tells; tool calls from before it was opened come from the floor's log. */
function LiveConversation({ id }: { id: string }) {
  const { say } = useWords();
  const client = useClient();
  const { log } = useHere();
  const live = useSession(id);
  const [older, setOlder] = useState<Transcript["messages"]>([]);
  const [hasOlder, setHasOlder] = useState(true);
  const { act, isBusy } = useAct();
  const { events, revision } = log;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `events` grows in place; the revision says so.
  const logged = useMemo(() => transcriptOf(events, id), [events, id, revision]);
  const { session, messages, toolUses, interactions, isDeleted, error, failure, status, hasMore } = live;
  if (isDeleted) return <Notice text={say("session.deleted")} />;
  if (status === "refused") {
    const isForeign = failure?.code === "session_not_found";
    return <Notice text={isForeign ? say("session.foreign") : (failure?.message ?? say("error.title"))} />;
  }
  if (!session) return <Notice text={say("session.loading")} isQuiet />;
  const seen = new Set(toolUses.map(({ data }) => data.toolCallId));
  const tools = [...logged.toolUses.filter(({ data }) => !seen.has(data.toolCallId)), ...toolUses];
  const readOlder = () =>
    act(async () => {
      const before = (older[0] ?? messages[0])!.id;
      const page = await client.listMessages(id, { before, limit: 200 });
      const read = page.messages.map((message) => ({ ...message, reasoning: "", isStreaming: false }));
      setOlder([...read, ...older]);
      setHasOlder(page.hasMore);
    });
  return (
    <Shown
      session={session}
      transcript={{ messages: [...older, ...messages], toolUses: tools, interactions, error }}
      summaryFailure={live.summaryFailure}
      onOlder={hasMore && hasOlder && !isBusy ? () => void readOlder() : undefined}
    />
  );
}

/** A conversation as it was, from the log alone. */
function PastConversation({ id }: { id: string }) {
  const { say } = useWords();
  const { log, count, sessionThen } = useHere();
  const { events, revision } = log;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `events` grows in place; the revision says so.
  const transcript = useMemo(() => transcriptOf(events, id, count), [events, id, count, revision]);
  const session = sessionThen(id);
  if (!session) return <Notice text={say("session.notthen")} isQuiet />;
  return <Shown session={session} transcript={transcript} />;
}

function Notice({ text, isQuiet = false }: { text: string; isQuiet?: boolean }) {
  const { say } = useWords();
  return (
    <div className={styles["empty"]}>
      <h1>{say("session.title")}</h1>
      <p role={isQuiet ? undefined : "alert"} className={isQuiet ? styles["soon"] : undefined}>
        {text}
      </p>
    </div>
  );
}

interface ShownProps {
  session: Session;
  transcript: Transcript;
  onOlder?: (() => void) | undefined;
  summaryFailure?: SessionLiveView["summaryFailure"];
}

function Shown({ session, transcript, onOlder, summaryFailure }: ShownProps) {
  const { say } = useWords();
  const { isLive } = useHere();
  const { messages, toolUses, interactions, error } = transcript;
  const [hasFacts, setHasFacts] = useState(false);
  const opener = useRef<HTMLButtonElement>(null);
  const closeFacts = () => {
    setHasFacts(false);
    opener.current?.focus();
  };
  return (
    <>
      <div className={styles["conversation"]}>
        <SessionHead
          session={session}
          hasTurns={messages.some(isOfUser)}
          isEmpty={messages.length === 0}
          summaryFailure={summaryFailure}
        >
          <button
            ref={opener}
            type="button"
            className={styles["tofacts"]}
            aria-expanded={hasFacts}
            onClick={() => setHasFacts(!hasFacts)}
          >
            {say("facts.title")}
          </button>
        </SessionHead>
        <Conversation messages={messages} toolUses={toolUses} session={session} onOlder={onOlder} />
        {error && (
          <p className={styles["error"]} role="alert">
            <b>{error.errorCode}</b> {error.message}
          </p>
        )}
        <Interactions sessionId={session.id} interactions={interactions} />
        {isLive && <Composer session={session} />}
      </div>
      <SessionFacts session={session} isOpen={hasFacts} onClose={closeFacts} />
    </>
  );
}

const isOfUser = ({ role, status }: Pick<Message, "role" | "status">) => role === "user" && status !== "queued";
