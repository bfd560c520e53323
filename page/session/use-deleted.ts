import { useLayoutEffect, useRef, useState } from "react";
import type { Session } from "../../src/protocol/session.ts";
import { useHere } from "../moment/here.tsx";
import { parseAddress, replaceAddress } from "../shell/address.ts";
import { rowBesideCurrent } from "../shell/row-keys.ts";

export type Deleted = Pick<Session, "id" | "floorId" | "title">;

/**
 * The session that was last deleted in this view, until another one is opened, a function that is called before a
 * session is deleted, and one that leaves the view afterwards.
 */
export function useDeleted() {
  const { linkTo, sessionId, floorId } = useHere();
  const [deleted, setDeleted] = useState<Deleted>();
  const view = useRef<HTMLElement>(null);
  const nextRow = useRef<HTMLElement>(undefined);
  // In the commit that removes the question: later, the keeper of the focus would have moved it elsewhere.
  useLayoutEffect(() => {
    if (!deleted) return;
    if (floorId !== deleted.floorId || (sessionId ?? deleted.id) !== deleted.id) return setDeleted(undefined);
    focusNext(nextRow.current, view.current);
  }, [deleted, sessionId, floorId]);
  // The list may lose the session's row before the view is left.
  const prepare = () => {
    nextRow.current = rowBesideCurrent();
  };
  const leave = (session: Deleted) => {
    // The answer may come after the user opened something else, which then stays. If the stream comes after the answer,
    // it may remove the question before the page reads the address that the answer has changed.
    const shown = parseAddress(location.hash);
    if (shown.view !== "session" || shown.rest[1] !== session.id) return focusNext(nextRow.current, view.current);
    nextRow.current = rowBesideCurrent() ?? nextRow.current;
    setDeleted(session);
    // The list replaces the session's entry in the browser's history, because the entry leads to a deleted session.
    replaceAddress(linkTo("session", { floorId: session.floorId, at: undefined }));
  };
  return { view, deleted, prepare, leave };
}

/** The question had the focus, and was removed with the session: move it to the next row. A focus elsewhere is kept. */
function focusNext(row: HTMLElement | undefined, view: HTMLElement | null): void {
  if (document.activeElement !== document.body) return;
  (row?.isConnected ? row : view?.querySelector<HTMLElement>("section[tabindex]"))?.focus();
}
