/**
 * What the browser remembers between visits, for all its tabs. Nothing secret is kept here: the token is an HttpOnly
 * cookie. `owner`: who is signed in.
 */
export type ChoiceName = "language" | "theme" | "owner" | "keys";

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

export function forgetChoice(name: ChoiceName): void {
  try {
    localStorage.removeItem(PREFIX + name);
  } catch {
    // Nothing was kept.
  }
}

/** Another tab changed the choice, or forgot it. */
export function watchChoice(name: ChoiceName, watcher: (value: string | undefined) => void): void {
  addEventListener("storage", ({ key, newValue }) => {
    if (key === PREFIX + name) watcher(newValue ?? undefined);
  });
}
