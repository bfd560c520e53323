/** The languages that the command line speaks. */
export const LANGUAGES = ["en", "zh"] as const;
export type Language = (typeof LANGUAGES)[number];

/** The language of a terminal, by its variables. Default: English. */
export function languageOf(env: Readonly<Record<string, string | undefined>>): Language {
  const locale = env["LC_ALL"] || env["LC_MESSAGES"] || env["LANG"] || "";
  return LANGUAGES.find((each) => locale.toLowerCase().startsWith(each)) ?? "en";
}
