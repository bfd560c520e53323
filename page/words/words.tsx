import { createContext, type ReactNode, use, useEffect, useMemo, useState } from "react";
import { readChoice, writeChoice } from "../shell/choices.ts";
import { en, type Words } from "./en.ts";
import { fill, type Say, spaced } from "./sentence.ts";

export type PageLanguage = "en" | "zh";

export interface Speech {
  language: PageLanguage;
  setLanguage: (language: PageLanguage) => void;
  say: Say;
  number: Intl.NumberFormat;
}

const SpeechContext = createContext<Speech | undefined>(undefined);

export function useWords(): Speech {
  const speech = use(SpeechContext);
  if (!speech) throw new Error("useWords() outside of <Speaking>.");
  return speech;
}

/** The language chosen earlier; otherwise the first of the browser's that the page supports; otherwise English. */
export function preferredLanguage(): PageLanguage {
  const chosen = readChoice("language");
  if (chosen === "en" || chosen === "zh") return chosen;
  const known = navigator.languages.map((each) => each.slice(0, 2)).find((each) => each === "en" || each === "zh");
  return known === "zh" ? "zh" : "en";
}

/** The tag of the page's language, for screen readers and for the server. */
export const tagOf = (language: PageLanguage): string => (language === "zh" ? "zh-CN" : "en");

/** English is part of the page's first chunk; every other language is a separate chunk. */
export async function loadWords(language: PageLanguage): Promise<Words> {
  return language === "en" ? en : (await import("./zh.ts")).zh;
}

/** @param first the words of the preferred language, so that the page never shows another one first */
export function Speaking({
  first,
  children,
}: {
  first: { language: PageLanguage; words: Words };
  children: ReactNode;
}) {
  const [{ language, words }, setSpoken] = useState(first);
  useEffect(() => {
    document.documentElement.lang = tagOf(language);
  }, [language]);
  const speech = useMemo<Speech>(
    () => ({
      language,
      setLanguage: (next) => {
        writeChoice("language", next);
        void loadWords(next).then((words) => setSpoken({ language: next, words }));
      },
      say: (key, values) => (language === "zh" ? spaced(fill(words[key], values)) : fill(words[key], values)),
      number: new Intl.NumberFormat(language),
    }),
    [language, words],
  );
  return <SpeechContext value={speech}>{children}</SpeechContext>;
}
