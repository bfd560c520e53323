import { useState } from "react";
import type { SessionMessage } from "../../src/client/conversation-reader.ts";
import type { Session } from "../../src/protocol/session.ts";
import { useClient } from "../../src/react/hooks.ts";
import { useHere } from "../moment/here.tsx";
import { CopyButton } from "../parts/commands/copy-button.tsx";
import { Menu } from "../parts/commands/menu.tsx";
import { Outcome } from "../parts/commands/outcome.tsx";
import { Sure } from "../parts/commands/sure.tsx";
import { isExternal } from "../parts/external-agent.ts";
import { useAct } from "../parts/use-act.ts";
import { useWords } from "../words/words.tsx";
import { EditForm } from "./copies/edit-form.tsx";
import { ForkForm } from "./copies/fork-form.tsx";
import { useOpenSession } from "./copies/open-session.ts";
import { Logs } from "./logs.tsx";
import styles from "./session.module.css";

/** The number of turns that begin with the message or after it. */
export type TurnsFrom = (messageId: string) => number;

interface Props {
  message: SessionMessage;
  session: Session;
  turnsFrom: TurnsFrom;
}

/** The commands for a message. */
export function MessageActions({ message, session, turnsFrom }: Props) {
  const { say } = useWords();
  const client = useClient();
  const { agents, isLive } = useHere();
  const lastCommand = useAct();
  const { act, isBusy } = lastCommand;
  const openSession = useOpenSession();
  const [form, setForm] = useState<"edit" | "fork" | "rollback">();
  const { id, role, content, status, agent } = message;
  const isUser = role === "user";
  const acceptsTurns = isLive && session.state !== "archived" && !isExternal(agents, session);
  const isFinished = status !== "queued" && status !== "running";
  const turns = form === "rollback" ? turnsFrom(id) : 0;
  const rollBack = () => act(async () => openSession((await client.rollBackSession(session.id, { turns })).session));
  const choices = [
    { text: say("message.fork"), choose: () => setForm("fork") },
    ...(isUser && acceptsTurns ? [{ text: say("message.rollback"), choose: () => setForm("rollback") }] : []),
  ];
  const leave = () => setForm(undefined);
  return (
    <>
      <footer>
        <CopyButton text={content} act={act} />
        {isUser && acceptsTurns && status !== "queued" && (
          <button type="button" disabled={isBusy} onClick={() => void act(() => client.resendMessage(session.id, id))}>
            {say("session.again")}
          </button>
        )}
        {isUser && acceptsTurns && status === "queued" && (
          <button
            type="button"
            disabled={isBusy}
            onClick={() =>
              void act(
                () => client.withdrawMessage(session.id, id),
                () => say("told.withdrawn"),
              )
            }
          >
            {say("session.withdraw")}
          </button>
        )}
        {isUser && isLive && isFinished && !isExternal(agents, session) && (
          <button type="button" disabled={isBusy} aria-expanded={form === "edit"} onClick={() => setForm("edit")}>
            {say("message.edit")}
          </button>
        )}
        {!isUser && isLive && <Logs sessionId={session.id} messageId={id} />}
        {isLive && isFinished && agent?.kind !== "sub" && (
          <Menu label={say("message.more")} items={choices} disabled={isBusy} />
        )}
      </footer>
      {form === "edit" && <EditForm message={message} session={session} onLeave={leave} />}
      {form === "fork" && <ForkForm session={session} messageId={id} onLeave={leave} />}
      {form === "rollback" && (
        <Sure
          question={say(turns === 1 ? "rollback.one" : "rollback.many", { count: turns })}
          yes={say("rollback.yes")}
          disabled={isBusy}
          onYes={() => void rollBack()}
          onNo={leave}
        />
      )}
      <div className={styles["outcome"]}>
        <Outcome of={lastCommand} />
      </div>
    </>
  );
}
