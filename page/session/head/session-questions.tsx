import type { Session } from "../../../src/protocol/session.ts";
import { useClient } from "../../../src/react/hooks.ts";
import { useHere } from "../../moment/here.tsx";
import { questionToDelete, SureToAbort } from "../../parts/commands/session-controls.tsx";
import { Sure } from "../../parts/commands/sure.tsx";
import type { Act } from "../../parts/use-act.ts";
import { useWords } from "../../words/words.tsx";
import { ForkForm } from "../copies/fork-form.tsx";
import { MoveForm } from "../copies/move-form.tsx";
import { useOpenSession } from "../copies/open-session.ts";

/** What is asked before a command: whether it is meant, for which agent a copy is, or to where a session moves. */
export type Question = "abort" | "fork" | "move" | "rollback" | "delete";

interface Props {
  session: Session;
  question: Question | undefined;
  onQuestion: (question: Question | undefined) => void;
  lastCommand: Act;
  onDelete: (() => Promise<void>) | undefined;
}

/** The question of a session's command, until it is answered. */
export function SessionQuestions({ session, question, onQuestion, lastCommand: { act, isBusy }, onDelete }: Props) {
  const { say } = useWords();
  const client = useClient();
  const { isLive } = useHere();
  const openSession = useOpenSession();
  const disabled = !isLive || isBusy;
  const leave = () => onQuestion(undefined);
  const onAborting = (isAborting: boolean) => onQuestion(isAborting ? "abort" : undefined);
  return (
    <>
      <SureToAbort {...{ session, disabled, act, onAborting }} isAborting={question === "abort"} />
      {question === "fork" && <ForkForm session={session} onLeave={leave} />}
      {question === "move" && <MoveForm session={session} onLeave={leave} />}
      {question === "rollback" && (
        <Sure
          question={say("rollback.one")}
          yes={say("rollback.yes")}
          disabled={disabled}
          onYes={() => void act(async () => openSession((await client.rollBackSession(session.id)).session))}
          onNo={leave}
        />
      )}
      {question === "delete" && onDelete && (
        // Its button is not disabled meanwhile: it would lose the focus, and a refused command may be repeated.
        <Sure
          question={say(questionToDelete(session))}
          yes={say("session.yesdelete")}
          onYes={() => void (isBusy || act(onDelete))}
          onNo={leave}
        />
      )}
    </>
  );
}
