import { useCallback, useState } from "react";
import { ClientError } from "../../src/client/client-error.ts";
import type { Decision } from "../../src/protocol/decision.ts";

/** What became of the last command that was given here. */
export interface Act {
  isBusy: boolean;
  /** Why it failed, in the server's words. */
  refusal?: { text: string; decision?: Decision | undefined } | undefined;
  /** Runs a command; a failure is shown where it was given, and stays until the next. */
  act: (command: () => Promise<unknown>) => Promise<boolean>;
  forget: () => void;
}

export function useAct(): Act {
  const [state, setState] = useState<Pick<Act, "isBusy" | "refusal">>({ isBusy: false });
  const act = useCallback(async (command: () => Promise<unknown>) => {
    setState({ isBusy: true });
    try {
      await command();
      setState({ isBusy: false });
      return true;
    } catch (error) {
      const decision = error instanceof ClientError ? error.facts.decision : undefined;
      setState({ isBusy: false, refusal: { text: reasonOf(error as Error), decision } });
      return false;
    }
  }, []);
  const forget = useCallback(() => setState({ isBusy: false }), []);
  return { ...state, act, forget };
}

/** The server's words, with what is wrong with the request. */
function reasonOf(error: Error): string {
  const issues = error instanceof ClientError ? (error.facts.issues ?? []) : [];
  return [error.message, ...issues.map(({ message }) => message)].join(" ");
}
