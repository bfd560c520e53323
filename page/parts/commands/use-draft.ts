import { useState } from "react";

/** Unsent texts that a tab keeps; the oldest is dropped. */
const MAX_DRAFTS = 50;

const drafts = new Map<string, string>();

/**
 * An unsent text. It outlives its field: another session may take the floor while it is written, or another view be
 * opened.
 * @param of a session's id, or what else the text is for
 */
export function useDraft(of: string): [text: string, setText: (text: string) => void] {
  const [text, setText] = useState(() => drafts.get(of) ?? "");
  return [
    text,
    (next) => {
      setText(next);
      drafts.delete(of);
      if (next !== "") drafts.set(of, next);
      for (const oldest of drafts.keys()) if (drafts.size > MAX_DRAFTS) drafts.delete(oldest);
    },
  ];
}
