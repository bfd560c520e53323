/**
 * What the browser remembers between visits, for all its tabs. Nothing secret is kept here: the token is an HttpOnly
 * cookie. `owner`: who is signed in; `signin`: when that was last said, in ms since 1970.
 */
export type ChoiceName = "language" | "theme" | "owner" | "signin" | "keys";

const PREFIX = "interlock.";

/** Undefined when it was never set, or when the browser keeps nothing. */
export function readChoice(name: ChoiceName): string | undefined {
  try {
    return localStorage.getItem(PREFIX + name) ?? undefined;
  } catch {
    return undefined;
  }
}

export function writeChoice(name: ChoiceName, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch {
    // Private windows may keep nothing: the choice then lasts until the page is closed.
  }
}

/** The user who is signed in with this browser; undefined: no user, as far as it remembers. */
export const readOwner = (): string | undefined => readChoice("owner");

/** Tells the other tabs too, also if the same user signed in again. */
export function writeOwner(ownerId: string | undefined): void {
  if (ownerId === undefined) forgetChoice("owner");
  else writeChoice("owner", ownerId);
  writeChoice("signin", String(Date.now()));
}

/** Called when another tab signed in or out. */
export function watchOwner(watcher: (ownerId: string | undefined) => void): void {
  addEventListener("storage", ({ key }) => {
    if (key === `${PREFIX}signin`) watcher(readOwner());
  });
}

function forgetChoice(name: ChoiceName): void {
  try {
    localStorage.removeItem(PREFIX + name);
  } catch {
    // Nothing was kept.
  }
}
