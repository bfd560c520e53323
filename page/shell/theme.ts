import { useState } from "react";
import { readChoice, writeChoice } from "./choices.ts";

export type Theme = "light" | "dark";

/** Called before React renders, so that the page never flashes in the other theme. */
export function applyChosenTheme(): void {
  const chosen = readChoice("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset["theme"] = chosen;
}

/** The theme in use, and a function to change it. Without a choice the system's theme applies. */
export function useTheme(): { theme: Theme; setTheme: (theme: Theme) => void } {
  const [theme, setShown] = useState<Theme>(currentTheme);
  const setTheme = (next: Theme) => {
    writeChoice("theme", next);
    document.documentElement.dataset["theme"] = next;
    setShown(next);
  };
  return { theme, setTheme };
}

function currentTheme(): Theme {
  const chosen = document.documentElement.dataset["theme"];
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}
