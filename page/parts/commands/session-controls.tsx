import type { Session } from "../../../src/protocol/session.ts";
import { useClient } from "../../../src/react/hooks.ts";
import type { WordKey } from "../../words/en.ts";
import { useWords } from "../../words/words.tsx";
import type { Act } from "../use-act.ts";
import { useStateSentence } from "./state-sentence.ts";
import { Sure } from "./sure.tsx";

interface Props {
  session: Session;
  disabled: boolean;
  act: Act["act"];
  /** Whether the question about the abort is open. */
  isAborting: boolean;
  onAborting: (isAborting: boolean) => void;
}

const isWorking = ({ activity }: Session): boolean => activity === "running" || activity === "waiting";

/** The question before a session is deleted; it says what is lost. */
export const questionToDelete = (session: Session): WordKey =>
  isWorking(session) ? "session.reallydeleterunning" : "session.reallydelete";

/** Pause or resume, and abort, with their keys. */
export function SessionControls({ session, disabled, act, onAborting }: Omit<Props, "isAborting">) {
  const { id, state } = session;
  const { say } = useWords();
  const client = useClient();
  const stateSentence = useStateSentence();
  const isPaused = state === "paused";
  return (
    <>
      {/* One button for both, so that it keeps the focus. */}
      {(state === "active" || state === "ducked" || isPaused) && (
        <button
          type="button"
          data-key={isPaused ? "R" : "P"}
          disabled={disabled}
          onClick={() => void act(() => (isPaused ? client.resumeSession(id) : client.pauseSession(id)), stateSentence)}
        >
          {say(isPaused ? "session.resume" : "session.pause")}
        </button>
      )}
      {isWorking(session) && (
        <button type="button" data-key="X" disabled={disabled} onClick={() => onAborting(true)}>
          {say("session.abort")}
        </button>
      )}
    </>
  );
}

/** Asks once before a run is aborted; the question closes when no run is left. */
export function SureToAbort({ session, disabled, act, isAborting, onAborting }: Props) {
  const { say } = useWords();
  const client = useClient();
  if (!isAborting || !isWorking(session)) return null;
  return (
    <Sure
      question={say("session.reallyabort")}
      yes={say("session.abort")}
      disabled={disabled}
      onYes={(giveBack) => {
        giveBack();
        onAborting(false);
        void act(
          () => client.send({ type: "abort", sessionId: session.id }),
          () => say("told.aborted", { title: session.title }),
        );
      }}
      onNo={() => onAborting(false)}
    />
  );
}
