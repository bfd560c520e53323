import { useCallback, useEffect, useRef, useState } from "react";
import { ClientError } from "../../src/client/client-error.ts";
import type { Decision } from "../../src/protocol/decision.ts";
import { failureText } from "../words/failure-text.ts";
import type { Say } from "../words/sentence.ts";
import { useWords } from "../words/words.tsx";
import { announce } from "./commands/announced.ts";
import { guardFocus } from "./focus/kept-focus.ts";

export interface Refusal {
  /** The error in the page's language. */
  text: string;
  decision?: Decision | undefined;
  /** The server did not answer: the command may have been executed. */
  isUnknown: boolean;
}

/** The state of the last command sent from here. */
export interface Act {
  isBusy: boolean;
  /** The answer is late: the command may have been executed or not, and the client repeats it with the same key. */
  isLate: boolean;
  refusal?: Refusal | undefined;
  /**
   * Runs a command; a failure is shown beside its control until the next command.
   * @param outcome the sentence that screen readers get when it is done
   */
  act: <T>(command: () => Promise<T>, outcome?: (answer: T) => string) => Promise<boolean>;
}

/** An answer that takes longer than this is late, in ms. */
const LATE_MS = 2_000;

interface State extends Pick<Act, "isBusy" | "isLate"> {
  error?: Error;
}

const IDLE: State = { isBusy: false, isLate: false };

export function useAct(): Act {
  const { say } = useWords();
  const [{ error, ...state }, setState] = useState<State>(IDLE);
  /** Gives the focus back to the control that sent the command: a disabled control loses it. */
  const release = useRef<() => void>(undefined);
  useEffect(() => {
    if (state.isBusy) return;
    release.current?.();
    release.current = undefined;
  }, [state.isBusy]);
  useEffect(() => () => release.current?.(), []);
  const act = useCallback(async <T>(command: () => Promise<T>, outcome?: (answer: T) => string) => {
    release.current ??= guardFocus();
    setState({ isBusy: true, isLate: false });
    const timer = setTimeout(() => setState({ isBusy: true, isLate: true }), LATE_MS);
    try {
      const answer = await command();
      if (outcome) announce(outcome(answer));
      setState(IDLE);
      return true;
    } catch (error) {
      setState({ ...IDLE, error: error as Error });
      return false;
    } finally {
      clearTimeout(timer);
    }
  }, []);
  return { ...state, refusal: error && refusalOf(error, say), act };
}

function refusalOf(error: Error, say: Say): Refusal {
  const text = failureText(error, say);
  if (!(error instanceof ClientError)) return { text, isUnknown: false };
  const { code, facts } = error;
  return {
    text,
    decision: facts.decision,
    // A read has no key, and its failure leaves no outcome unknown.
    isUnknown: facts.commandId !== undefined && (code === "unreachable" || code === "unavailable"),
  };
}
