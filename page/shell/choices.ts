/** What the browser remembers between visits. Nothing secret is kept here: the token is an HttpOnly cookie. */
export type ChoiceName = "language" | "theme" | "signedin" | "keys";

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
