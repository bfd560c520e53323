import { useState } from "react";

/** Sessions whose unsent texts a tab keeps; the oldest text is dropped. */
const MAX_DRAFTS = 50;

const drafts = new Map<string, string>();

/**
 * The unsent text for a session. It outlives its field: another session may take the floor while it is written, or
 * another view be opened.
 */
export function useDraft(sessionId: string): [text: string, setText: (text: string) => void] {
  const [text, setText] = useState(() => drafts.get(sessionId) ?? "");
  return [
    text,
    (next) => {
      setText(next);
      drafts.delete(sessionId);
      if (next !== "") drafts.set(sessionId, next);
      for (const oldest of drafts.keys()) if (drafts.size > MAX_DRAFTS) drafts.delete(oldest);
    },
  ];
}
