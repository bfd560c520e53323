import { useEffect, useState } from "react";

/** Changes when a canvas must be painted again: its colours come from the page's style. */
export function usePaintedTheme(): string {
  const [theme, setTheme] = useState("");
  useEffect(() => {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const look = () => setTheme(`${document.documentElement.dataset["theme"]} ${system.matches}`);
    const watching = new MutationObserver(look);
    watching.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    system.addEventListener("change", look);
    return () => {
      watching.disconnect();
      system.removeEventListener("change", look);
    };
  }, []);
  return theme;
}
