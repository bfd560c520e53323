/** What a page that is loaded anew finds in its place in the browser's history. */
interface Handed {
  newOwner: string;
}

/** Load the page anew: all that it holds is gone, and nothing that waits is sent. */
export function beginAnew(newOwner: string | undefined): void {
  const handed: Handed | null = newOwner === undefined ? null : { newOwner };
  history.replaceState(handed, "");
  location.reload();
}

/** Who signed in in place of the page's former user, if the page was loaded anew for that. Says so once. */
export function receiveNewOwner(): string | undefined {
  const handed = history.state as Handed | null;
  if (handed !== null) history.replaceState(null, "");
  return handed?.newOwner;
}
