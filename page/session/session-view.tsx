import { lazy, Suspense, useEffectEvent, useLayoutEffect, useMemo, useState } from "react";
import type { ClientError } from "../../src/client/client-error.ts";
import { type ConversationView, toolKeyOf } from "../../src/client/conversation-reader.ts";
import type { SessionLiveView } from "../../src/client/live/live-session.ts";
import type { ServerEvent } from "../../src/client/server-event.ts";
import type { Message } from "../../src/protocol/message.ts";
import type { Session } from "../../src/protocol/session.ts";
import { useClient, useSession } from "../../src/react/hooks.ts";
import { transcriptOf } from "../log/conversation-log.ts";
import { eventIndices } from "../log/log-index.ts";
import { useHere } from "../moment/here.tsx";
import { useMedia } from "../parts/screen/use-media.ts";
import { useAct } from "../parts/use-act.ts";
import { failureText } from "../words/failure-text.ts";
import type { Say } from "../words/sentence.ts";
import { useWords } from "../words/words.tsx";
import { Composer } from "./composer.tsx";
import { Conversation } from "./conversation.tsx";
import { SessionFacts } from "./facts/session-facts.tsx";
import { SessionHead } from "./head/session-head.tsx";
import { Interactions } from "./interactions.tsx";
import { SessionList } from "./list/session-list.tsx";
import { PrintedContext } from "./logs.tsx";
import styles from "./session.module.css";
import { type Deleted, useDeleted } from "./use-deleted.ts";

/** A separate script, because few screens have room for it and the charts are large. */
const SessionMachine = lazy(async () => ({ default: (await import("./facts/session-machine.tsx")).SessionMachine }));

/** A live conversation, and the list of all others beside it. */
export function SessionView() {
  const { say } = useWords();
  const { sessionId, isLive } = useHere();
  const { view, deleted, prepare, leave } = useDeleted();
  return (
    <section
      ref={view}
      className={styles["view"]}
      data-chosen={sessionId !== undefined}
      aria-label={say("session.title")}
    >
      <SessionList />
      {sessionId === undefined && (
        <div className={styles["empty"]}>
          <h1>{say("session.title")}</h1>
          {deleted && <p role="status">{say("session.nowdeleted", { title: deleted.title })}</p>}
          <p>{say("session.choose")}</p>
        </div>
      )}
      {sessionId !== undefined && isLive && (
        <LiveConversation key={sessionId} id={sessionId} onDelete={prepare} onDeleted={leave} />
      )}
      {sessionId !== undefined && !isLive && <PastConversation id={sessionId} />}
    </section>
  );
}

interface LiveProps {
  id: string;
  onDelete: () => void;
  onDeleted: (session: Deleted) => void;
}

/** The session's stream; tool calls from before it was opened come from the floor's log. */
function LiveConversation({ id, onDelete, onDeleted }: LiveProps) {
  const { say } = useWords();
  const client = useClient();
  const { log, recent } = useHere();
  const live = useSession(id);
  const [older, setOlder] = useState<ConversationView["messages"]>([]);
  const [hasOlder, setHasOlder] = useState(true);
  const [isDeleting, setDeleting] = useState(false);
  const { act, isBusy } = useAct();
  const { events, revision } = log;
  const [index] = useState(() => eventIndices());
  // biome-ignore lint/correctness/useExhaustiveDependencies: `events` grows in place; the revision says so.
  const logged = useMemo(() => transcriptOf(events, index.of(events).get(id)), [events, index, id, revision]);
  const { session, messages, toolUses, interactions, isDeleted, error, failure, status, hasMore } = live;
  // The stream of an archived session has ended: the floor's stream contains the deletion.
  const isGone = isDeleted || isDeletion(recent.findLast(({ sessionId }) => sessionId === id));
  const leave = useEffectEvent(() => session && onDeleted(session));
  // The streams may report it before the answer, or without one.
  useLayoutEffect(() => {
    if (isGone && isDeleting) leave();
  }, [isGone, isDeleting]);
  if (isGone) return isDeleting ? undefined : <Placeholder text={say("session.deleted")} />;
  if (status === "refused") {
    return <Placeholder text={failure ? refusalText(id, failure, say) : say("failure.title")} />;
  }
  if (!session) return <Placeholder text={say("session.loading")} isQuiet />;
  const seen = new Set(toolUses.map(toolKeyOf));
  const tools = [...logged.toolUses.filter((use) => !seen.has(toolKeyOf(use))), ...toolUses];
  const readOlder = () =>
    act(async () => {
      const before = (older[0] ?? messages[0])!.id;
      const page = await client.listMessages(id, { before, limit: 200 });
      const read = page.messages.map((message) => ({ ...message, reasoning: "", isStreaming: false }));
      setOlder([...read, ...older]);
      setHasOlder(page.hasMore);
    });
  const remove = async () => {
    onDelete();
    setDeleting(true);
    try {
      await client.deleteSession(id);
      onDeleted(session);
    } catch (error) {
      setDeleting(false);
      throw error;
    }
  };
  return (
    <PrintedContext value={live.logs}>
      <Shown
        session={session}
        onDelete={remove}
        transcript={{ messages: [...older, ...messages], toolUses: tools, interactions, error }}
        summaryFailure={live.summaryFailure}
        onOlder={hasMore && hasOlder && !isBusy ? () => void readOlder() : undefined}
      />
    </PrintedContext>
  );
}

const isDeletion = (event: ServerEvent | undefined): boolean =>
  event?.type === "session_transition" && event.data.to === "deleted";

/** A past conversation, from the log only. */
function PastConversation({ id }: { id: string }) {
  const { say } = useWords();
  const { log, count, sessionThen } = useHere();
  const { events, revision } = log;
  const [index] = useState(() => eventIndices());
  // biome-ignore lint/correctness/useExhaustiveDependencies: `events` grows in place; the revision says so.
  const transcript = useMemo(
    () => transcriptOf(events, index.of(events).get(id), count),
    [events, index, id, count, revision],
  );
  const session = sessionThen(id);
  if (!session) return <Placeholder text={say("session.notthen")} isQuiet />;
  // The log has the number of messages at the session's beginning, and each one since then.
  const messageCount = session.messageCount + transcript.messages.length;
  return <Shown session={{ ...session, messageCount }} transcript={transcript} copied={session.messageCount} />;
}

function refusalText(id: string, failure: ClientError, say: Say): string {
  if (failure.code === "session_not_found") return say("session.foreign");
  return failure.code === "bad_request" ? say("session.malformed", { id }) : failureText(failure, say);
}

/** Why there is no conversation, with the way to the others; nothing while one is being read. */
function Placeholder({ text, isQuiet = false }: { text: string; isQuiet?: boolean }) {
  const { say } = useWords();
  const { linkTo } = useHere();
  return (
    <div className={styles["empty"]}>
      <h1>{say("session.title")}</h1>
      <p role={isQuiet ? undefined : "alert"} className={isQuiet ? styles["soon"] : undefined}>
        {text}
      </p>
      {!isQuiet && (
        <p>
          <a href={linkTo("session")}>{say("session.all")}</a>
        </p>
      )}
    </div>
  );
}

interface ShownProps {
  session: Session;
  transcript: ConversationView;
  /** The number of messages before the transcript that only the server has. */
  copied?: number;
  onOlder?: (() => void) | undefined;
  summaryFailure?: SessionLiveView["summaryFailure"];
  onDelete?: () => Promise<void>;
}

function Shown({ session, transcript, copied = 0, onOlder, summaryFailure, onDelete }: ShownProps) {
  const { say } = useWords();
  const { isLive } = useHere();
  const { messages, toolUses, interactions, error } = transcript;
  const [hasFacts, setHasFacts] = useState(false);
  const isWide = useMedia("(min-width: 1800px)");
  return (
    <>
      <div className={styles["conversation"]}>
        <SessionHead
          session={session}
          hasTurns={messages.some(isOfUser)}
          isEmpty={messages.length === 0}
          summaryFailure={summaryFailure}
          onDelete={onDelete}
        >
          <button type="button" className={styles["tofacts"]} aria-haspopup="dialog" onClick={() => setHasFacts(true)}>
            {say("facts.title")}
          </button>
        </SessionHead>
        <Conversation messages={messages} toolUses={toolUses} session={session} copied={copied} onOlder={onOlder} />
        {error && (
          <p className={styles["error"]} role="alert">
            <b>{error.errorCode}</b> {failureText({ code: error.errorCode, message: error.message }, say)}
          </p>
        )}
        <Interactions session={session} interactions={interactions} />
        {isLive && <Composer session={session} />}
      </div>
      {isWide && (
        <Suspense>
          <SessionMachine session={session} />
        </Suspense>
      )}
      <SessionFacts session={session} isOpen={hasFacts} onClose={() => setHasFacts(false)} />
    </>
  );
}

const isOfUser = ({ role, status }: Pick<Message, "role" | "status">) => role === "user" && status !== "queued";
