import type { SessionAnswer } from "../../../src/client/answers.ts";
import { useWords } from "../../words/words.tsx";
import { lookOf } from "../look.ts";

/** A function that says which state a session has after a command. */
export function useStateSentence(): (answer: Pick<SessionAnswer, "session">) => string {
  const { say } = useWords();
  return ({ session }) => say("told.state", { title: session.title, state: say(`state.${lookOf(session)}`) });
}
