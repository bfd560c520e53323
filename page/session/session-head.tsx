import { type ReactNode, useEffect, useState } from "react";
import type { SessionLiveView } from "../../src/client/live/live-session.ts";
import type { Session } from "../../src/protocol/session.ts";
import { useClient } from "../../src/react/provider.ts";
import { Why } from "../floor/why.tsx";
import { useHere } from "../moment/here.tsx";
import { clockOf } from "../moment/moment-text.ts";
import { Menu } from "../parts/commands/menu.tsx";
import { Outcome } from "../parts/commands/outcome.tsx";
import { saveFile } from "../parts/commands/save-file.ts";
import { questionToDelete, SessionControls, SureToAbort } from "../parts/commands/session-controls.tsx";
import { Sure } from "../parts/commands/sure.tsx";
import { isExternal } from "../parts/external-agent.ts";
import { LeaseLeft } from "../parts/lease-left.tsx";
import { lookOf } from "../parts/look.ts";
import { StateSign } from "../parts/state-sign.tsx";
import { useAct } from "../parts/use-act.ts";
import { useWords } from "../words/words.tsx";
import { ForkForm } from "./copies/fork-form.tsx";
import { useOpenSession } from "./copies/open-session.ts";
import { ModeChoice } from "./mode-choice.tsx";
import styles from "./session.module.css";
import { Summarise } from "./summaries.tsx";

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
  const { say, language, number } = useWords();
  const client = useClient();
  const { agents, agentName, isLive, linkTo, floorId = "" } = useHere();
  const given = useAct();
  const { act, isBusy } = given;
  const openSession = useOpenSession();
  const [title, setTitle] = useState<string>();
  const [asked, setAsked] = useState<"abort" | "fork" | "rollback" | "delete">();
  const { id, agentId, state, createdAt, tokenUsage, priority } = session;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a title that arrives ends the editing of the old one.
  useEffect(() => setTitle(undefined), [session.title]);
  const disabled = !isLive || isBusy;
  const controls = {
    session,
    disabled,
    act,
    onAborting: (isAborting: boolean) => setAsked(isAborting ? "abort" : undefined),
  };
  const mayTakeBack = hasTurns && state !== "archived" && !isExternal(agents, session);
  const save = (format: "md" | "jsonl") =>
    act(async () => saveFile(await client.exportSession(id, format), session.title, format));
  const choices = [
    { text: say("session.fork"), choose: () => setAsked("fork") },
    ...(mayTakeBack ? [{ text: say("session.rollback"), choose: () => setAsked("rollback") }] : []),
    { text: say("session.exportmd"), choose: () => void save("md") },
    { text: say("session.exportjsonl"), choose: () => void save("jsonl") },
    ...(onDelete ? [{ text: say("session.delete"), choose: () => setAsked("delete") }] : []),
  ];
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
      <div className={styles["actions"]}>
        <button type="button" disabled={disabled || state === "archived"} onClick={() => setTitle(session.title)}>
          {say("session.rename")}
        </button>
        <SessionControls {...controls} />
        <button
          type="button"
          disabled={disabled || state === "archived"}
          onClick={() => void act(() => client.archiveSession(id))}
        >
          {say("session.archive")}
        </button>
        <Summarise key={`${id} ${agentId}`} session={session} isEmpty={isEmpty} failure={summaryFailure} />
        {isLive && <Menu label={say("session.more")} items={choices} disabled={isBusy} />}
        {children}
      </div>
      <SureToAbort {...controls} isAborting={asked === "abort"} />
      {asked === "fork" && <ForkForm session={session} onLeave={() => setAsked(undefined)} />}
      {asked === "rollback" && (
        <Sure
          question={say("rollback.one")}
          yes={say("rollback.yes")}
          disabled={disabled}
          onYes={() => void act(async () => openSession((await client.rollBackSession(id)).session))}
          onNo={() => setAsked(undefined)}
        />
      )}
      {asked === "delete" && onDelete && (
        // Its button is not disabled meanwhile: it would lose the focus, and a refused command may be repeated.
        <Sure
          question={say(questionToDelete(session))}
          yes={say("session.yesdelete")}
          onYes={() => void (isBusy || act(onDelete))}
          onNo={() => setAsked(undefined)}
        />
      )}
      <div className={styles["outcome"]}>
        <Outcome of={given} />
      </div>
    </header>
  );
}
