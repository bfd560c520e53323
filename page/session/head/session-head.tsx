import { type ReactNode, useEffect, useState } from "react";
import type { SessionLiveView } from "../../../src/client/live/live-session.ts";
import type { Session } from "../../../src/protocol/session.ts";
import { useClient } from "../../../src/react/hooks.ts";
import { Why } from "../../floor/why.tsx";
import { useHere } from "../../moment/here.tsx";
import { whenOf } from "../../moment/time-text.ts";
import { Outcome } from "../../parts/commands/outcome.tsx";
import { SessionControls } from "../../parts/commands/session-controls.tsx";
import { useStateSentence } from "../../parts/commands/state-sentence.ts";
import { LeaseLeft } from "../../parts/lease-left.tsx";
import { lookOf } from "../../parts/look.ts";
import { StateSign } from "../../parts/state-sign.tsx";
import { useAct } from "../../parts/use-act.ts";
import { useWords } from "../../words/words.tsx";
import styles from "../session.module.css";
import { Summarise } from "../summaries.tsx";
import { ModeChoice } from "./mode-choice.tsx";
import { SessionMenu } from "./session-menu.tsx";
import { type Question, SessionQuestions } from "./session-questions.tsx";
import { SessionTitle } from "./session-title.tsx";

interface Props {
  session: Session;
  isEmpty: boolean;
  /** Whether there is a turn to roll back. */
  hasTurns: boolean;
  summaryFailure: SessionLiveView["summaryFailure"];
  /** Deletes the session and leaves its view; absent at a past moment. */
  onDelete?: (() => Promise<void>) | undefined;
  /** Further buttons. */
  children: ReactNode;
}

/** A session's name, its state, and the commands for the whole session. */
export function SessionHead({ session, isEmpty, hasTurns, summaryFailure, onDelete, children }: Props) {
  const { say } = useWords();
  const client = useClient();
  const { isLive, linkTo, floorId = "" } = useHere();
  const lastCommand = useAct();
  const { act, isBusy } = lastCommand;
  const [draft, setDraft] = useState<string>();
  const [question, setQuestion] = useState<Question>();
  const { id, agentId, state } = session;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a title that arrives ends the editing of the old one.
  useEffect(() => setDraft(undefined), [session.title]);
  const stateSentence = useStateSentence();
  const disabled = !isLive || isBusy;
  const rename = async (title: string) => {
    if (
      await act(
        () => client.renameSession(id, title),
        () => say("told.renamed", { title }),
      )
    )
      setDraft(undefined);
  };
  const onAborting = (isAborting: boolean) => setQuestion(isAborting ? "abort" : undefined);
  return (
    <header className={styles["head"]}>
      <a className={styles["back"]} href={linkTo("session", { floorId })}>
        ← <span>{say("session.all")}</span>
      </a>
      <SessionTitle title={session.title} draft={draft} onDraft={setDraft} onRename={(title) => void rename(title)} />
      <StateLine session={session} />
      <Why session={session} />
      <div className={styles["actions"]}>
        <button type="button" disabled={disabled || state === "archived"} onClick={() => setDraft(session.title)}>
          {say("session.rename")}
        </button>
        <SessionControls {...{ session, disabled, act, onAborting }} />
        <button
          type="button"
          data-risky
          disabled={disabled || state === "archived"}
          onClick={() => void act(() => client.archiveSession(id), stateSentence)}
        >
          {say("session.archive")}
        </button>
        <Summarise key={`${id} ${agentId}`} session={session} isEmpty={isEmpty} failure={summaryFailure} />
        {isLive && (
          <SessionMenu
            session={session}
            hasTurns={hasTurns}
            mayDelete={onDelete !== undefined}
            lastCommand={lastCommand}
            onQuestion={setQuestion}
          />
        )}
        {children}
      </div>
      <SessionQuestions
        session={session}
        question={question}
        onQuestion={setQuestion}
        lastCommand={lastCommand}
        onDelete={onDelete}
      />
      <div className={styles["outcome"]}>
        <Outcome of={lastCommand} />
      </div>
    </header>
  );
}

/** A session's state, agent, mode, priority, beginning, tokens and lease, in one line. */
function StateLine({ session }: { session: Session }) {
  const { say, language, number } = useWords();
  const { agentName } = useHere();
  const { id, agentId, priority, createdAt, tokenUsage } = session;
  return (
    <p>
      <StateSign look={lookOf(session)} /> {agentName(agentId)}{" "}
      <ModeChoice key={`${id} ${agentId}`} session={session} />· {say("agents.priority", { value: priority })}
      {" · "}
      {say("session.begun", { time: whenOf(createdAt, language) })} ·{" "}
      {say("session.tokens", { count: number.format(tokenUsage.used) })}
      <LeaseLeft session={session} />
    </p>
  );
}
