import { useEffect, useMemo, useState } from "react";
import type { Session } from "../../src/protocol/session.ts";
import { useClient } from "../../src/react/provider.ts";
import { useSession } from "../../src/react/use-session.ts";
import { Why } from "../floor/why.tsx";
import { type Transcript, transcriptOf } from "../log/conversation-log.ts";
import { useHere } from "../moment/here.tsx";
import { clockOf } from "../moment/moment-text.ts";
import { LeaseLeft } from "../parts/lease-left.tsx";
import { lookOf } from "../parts/look.ts";
import { StateSign } from "../parts/state-sign.tsx";
import { useAct } from "../parts/use-act.ts";
import { useWords } from "../words/words.tsx";
import { Composer } from "./composer.tsx";
import { Conversation } from "./conversation.tsx";
import { Interactions } from "./interactions.tsx";
import { ModeChoice } from "./mode-choice.tsx";
import styles from "./session.module.css";
import { SessionList } from "./session-list.tsx";
import { Summarise } from "./summaries.tsx";

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
      <p role={isQuiet ? undefined : "alert"}>{text}</p>
    </div>
  );
}

interface ShownProps {
  session: Session;
  transcript: Transcript;
  onOlder?: (() => void) | undefined;
}

function Shown({ session, transcript, onOlder }: ShownProps) {
  const { isLive } = useHere();
  const { messages, toolUses, interactions, error } = transcript;
  return (
    <div className={styles["conversation"]}>
      <Head session={session} isEmpty={messages.length === 0} />
      <Conversation messages={messages} toolUses={toolUses} session={session} onOlder={onOlder} />
      {error && (
        <p className={styles["error"]} role="alert">
          <b>{error.errorCode}</b> {error.message}
        </p>
      )}
      <Interactions sessionId={session.id} interactions={interactions} />
      {isLive && <Composer session={session} />}
    </div>
  );
}

function Head({ session, isEmpty }: { session: Session; isEmpty: boolean }) {
  const { say, language, number } = useWords();
  const client = useClient();
  const { agentName, isLive, linkTo, floorId = "" } = useHere();
  const { act, refusal, isBusy } = useAct();
  const [title, setTitle] = useState<string>();
  const { id, agentId, state, activity, createdAt, tokenUsage, priority } = session;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a title that arrives ends the editing of the old one.
  useEffect(() => setTitle(undefined), [session.title]);
  const disabled = !isLive || isBusy;
  const rename = async () => {
    if (title === undefined || title.trim() === "" || title === session.title) return setTitle(undefined);
    if (await act(() => client.renameSession(id, title.trim()))) setTitle(undefined);
  };
  return (
    <header className={styles["head"]}>
      <a className={styles["back"]} href={linkTo("session", { floorId })}>
        ← <span>{say("session.all")}</span>
      </a>
      {title === undefined ? (
        <h1>{session.title}</h1>
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void rename();
          }}
        >
          <h1 className={styles["hidden"]}>{session.title}</h1>
          <input
            aria-label={say("session.newtitle")}
            value={title}
            maxLength={256}
            onChange={({ target }) => setTitle(target.value)}
            onKeyDown={({ key }) => key === "Escape" && setTitle(undefined)}
          />
          <button type="submit">{say("session.save")}</button>
        </form>
      )}
      <p>
        <StateSign look={lookOf(session)} /> {agentName(agentId)}{" "}
        <ModeChoice key={`${id} ${agentId}`} session={session} />· {say("agents.priority", { value: priority })}
        {" · "}
        {say("session.begun", { time: clockOf(createdAt, language) })} ·{" "}
        {say("session.tokens", { count: number.format(tokenUsage.used) })}
        <LeaseLeft session={session} />
      </p>
      <Why session={session} />
      <p className={styles["actions"]}>
        <button type="button" disabled={disabled || state === "archived"} onClick={() => setTitle(session.title)}>
          {say("session.rename")}
        </button>
        {(state === "active" || state === "ducked") && (
          <button type="button" disabled={disabled} onClick={() => void act(() => client.pauseSession(id))}>
            {say("session.pause")}
          </button>
        )}
        {state === "paused" && (
          <button type="button" disabled={disabled} onClick={() => void act(() => client.resumeSession(id))}>
            {say("session.resume")}
          </button>
        )}
        {(activity === "running" || activity === "waiting") && (
          <button
            type="button"
            disabled={disabled}
            onClick={() => void act(() => client.send({ type: "abort", sessionId: id } as never))}
          >
            {say("session.abort")}
          </button>
        )}
        <button
          type="button"
          disabled={disabled || state === "archived"}
          onClick={() => void act(() => client.archiveSession(id))}
        >
          {say("session.archive")}
        </button>
        <Summarise key={`${id} ${agentId}`} session={session} isEmpty={isEmpty} />
      </p>
      {refusal && <p role="alert">{refusal.text}</p>}
    </header>
  );
}
