import { useCallback, useEffect, useRef, useState } from "react";
import { ClientError } from "../../src/client/client-error.ts";
import type { Decision } from "../../src/protocol/decision.ts";

export interface Refusal {
  /** The error in the server's words. */
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
  /** Runs a command; a failure is shown beside its control until the next command. */
  act: (command: () => Promise<unknown>) => Promise<boolean>;
  forget: () => void;
}

/** An answer that takes longer than this is late, in ms. */
const LATE_MS = 2_000;

const IDLE = { isBusy: false, isLate: false };

export function useAct(): Act {
  const [state, setState] = useState<Pick<Act, "isBusy" | "isLate" | "refusal">>(IDLE);
  /** The control that sent the command: it is disabled meanwhile, and a disabled control loses the focus. */
  const sender = useRef<Element>(null);
  useEffect(() => {
    if (state.isBusy) return;
    if (document.activeElement === document.body && sender.current instanceof HTMLElement) {
      sender.current.focus({ preventScroll: true });
    }
    sender.current = null;
  }, [state.isBusy]);
  const act = useCallback(async (command: () => Promise<unknown>) => {
    sender.current = document.activeElement;
    setState({ isBusy: true, isLate: false });
    const timer = setTimeout(() => setState({ isBusy: true, isLate: true }), LATE_MS);
    try {
      await command();
      setState(IDLE);
      return true;
    } catch (error) {
      setState({ ...IDLE, refusal: refusalOf(error as Error) });
      return false;
    } finally {
      clearTimeout(timer);
    }
  }, []);
  const forget = useCallback(() => setState(IDLE), []);
  return { ...state, act, forget };
}

function refusalOf(error: Error): Refusal {
  if (!(error instanceof ClientError)) return { text: error.message, isUnknown: false };
  const { code, facts, message } = error;
  const issues = facts.issues ?? [];
  return {
    text: [message, ...issues.map((issue) => issue.message)].join(" "),
    decision: facts.decision,
    // A read has no key, and its failure leaves no outcome unknown.
    isUnknown: facts.commandId !== undefined && (code === "unreachable" || code === "unavailable"),
  };
}
