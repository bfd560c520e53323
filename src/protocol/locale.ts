import { z } from "zod";

/** A language tag, such as `en`, `zh` or `pt-BR`. */
export const Locale = z
  .string()
  .max(35)
  .regex(/^[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*$/, "a language tag, such as en or zh-CN");
export type Locale = z.infer<typeof Locale>;

/** A text, or one text per language, the default first. */
export type LocalText = string | Readonly<Record<Locale, string>>;

/** The text in a language: for `en-GB` that of `en-GB`, else that of `en`, else the first. */
export function textIn(text: LocalText, locale: Locale | undefined): string {
  if (typeof text === "string") return text;
  const entries = Object.entries(text);
  for (let wanted = locale?.toLowerCase(); wanted; wanted = wanted.replace(/-?[^-]*$/, "")) {
    const found = entries.find(([name]) => name.toLowerCase() === wanted);
    if (found) return found[1];
  }
  return entries[0]![1];
}

/** Languages of a header that are compared. */
const MAX_LANGUAGES = 16;

/** The preferred language of an `Accept-Language` header; undefined if it names none. */
export function localeOf(header: string | undefined): Locale | undefined {
  if (header === undefined) return undefined;
  let best: { locale: Locale; weight: number } | undefined;
  for (const part of header.split(",", MAX_LANGUAGES)) {
    const [name = "", ...parameters] = part.split(";").map((each) => each.trim());
    const quality = parameters.find((each) => each.startsWith("q="));
    const weight = quality === undefined ? 1 : Number(quality.slice(2));
    if (weight > (best?.weight ?? 0) && Locale.safeParse(name).success) best = { locale: name, weight };
  }
  return best?.locale;
}
