import { useCallback, useSyncExternalStore } from "react";
import { Watchers } from "../../../src/client/watchers.ts";
import { restAfter } from "./rest-after.ts";

/** Unsent texts that a tab keeps; the oldest is dropped. */
const MAX_DRAFTS = 50;

const drafts = new Map<string, string>();
const watchers = new Watchers();

interface Draft {
  text: string;
  setText: (text: string) => void;
  /** The server has this text: what was typed since then stays, in whichever field it is now. */
  leaveUnsent: (sent: string) => void;
}

/**
 * An unsent text. It outlives its field: another session may take the floor while it is written, or another view be
 * opened.
 * @param of a session's id, or what else the text is for
 */
export function useDraft(of: string): Draft {
  const text = useSyncExternalStore(watchers.subscribe, () => drafts.get(of) ?? "");
  const setText = useCallback((next: string) => keep(of, next), [of]);
  const leaveUnsent = useCallback((sent: string) => keep(of, restAfter(drafts.get(of) ?? "", sent)), [of]);
  return { text, setText, leaveUnsent };
}

function keep(of: string, text: string): void {
  drafts.delete(of);
  if (text !== "") drafts.set(of, text);
  for (const oldest of drafts.keys()) if (drafts.size > MAX_DRAFTS) drafts.delete(oldest);
  watchers.notify();
}
