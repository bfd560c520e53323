import type { z } from "zod";
import { quote } from "../fault.ts";
import { suggest } from "../nearest.ts";

/** One fault of a value. Its message continues a sentence that begins with the path. */
export interface Explained {
  readonly path: readonly PropertyKey[];
  /** Whether the fault is in the key or in its value. */
  readonly on: "key" | "value";
  readonly message: string;
}

const KINDS: Record<string, string> = {
  string: "text",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "a map of keys and values",
  record: "a map of keys and values",
};

const UNKNOWN_KEY = "is not a known key; known here: ";

/**
 * Turns Zod's issues into sentences; pass it as `error` to `safeParse`. A schema's own message takes precedence: it
 * must continue the path (`must be …`) or, for a format, continue `must be`.
 */
export const explain: z.core.$ZodErrorMap = (issue) => {
  const { input } = issue;
  switch (issue.code) {
    case "invalid_type":
      return mustBe(KINDS[issue.expected] ?? issue.expected, input);
    case "invalid_value":
      return mustBe(either(issue.values), input);
    case "invalid_union":
      return mustBe(
        either("options" in issue && issue.options ? [issue.options].flat() : []),
        memberOf(input, issue.discriminator),
      );
    case "unrecognized_keys":
      return `${UNKNOWN_KEY}${Object.keys(shapeOf(issue.inst)).join(", ")}`;
    case "too_small":
      if (issue.minimum === 1 && (issue.origin === "string" || issue.origin === "array")) return "must not be empty";
      return size(issue.minimum, "least", input);
    case "too_big":
      return size(issue.maximum, "most", input);
    case "invalid_format":
      return issue.format === "url"
        ? "must be a URL with http or https"
        : `must match ${issue.pattern ?? issue.format}`;
    case "invalid_key":
      return "is not allowed here";
    default:
      return undefined;
  }
};

/** One entry per path: each unknown key separately, and for a union the branch that the value most likely means. */
export function explainIssues(issues: readonly z.core.$ZodIssue[], base: readonly PropertyKey[] = []): Explained[] {
  return issues.filter(isOwnBound).flatMap((issue): Explained[] => {
    const path = [...base, ...issue.path];
    switch (issue.code) {
      case "unrecognized_keys":
        return issue.keys.map((key) => ({ path: [...path, key], on: "key", message: whyUnknown(key, issue.message) }));
      case "invalid_key":
        return explainIssues(issue.issues).map(({ message }) => ({ path, on: "key", message }));
      case "invalid_union": {
        const meant = issue.errors.find((errors) => !errors.some(isOfAnotherType));
        if (meant) return explainIssues(meant, path);
        if (issue.errors.length === 0) return [{ path, on: "value", message: issue.message }];
        const kinds = issue.errors.map(([first]) =>
          first && isOfAnotherType(first) ? KINDS[first.expected] : undefined,
        );
        return [{ path, on: "value", message: `must be ${either(kinds)}` }];
      }
      case "invalid_format":
        return [{ path, on: "value", message: withInput(issue.message.replace(/^(?!must )/, "must be "), issue) }];
      default:
        return [{ path, on: "value", message: withInput(issue.message, issue) }];
    }
  });
}

/** Whether an issue is not that of Zod's own bound of whole numbers, where the key has a bound too. */
function isOwnBound(issue: z.core.$ZodIssue, _index: number, issues: readonly z.core.$ZodIssue[]): boolean {
  if ((issue.code !== "too_big" && issue.code !== "too_small") || issue.origin !== "int") return true;
  return !issues.some(
    ({ code, path }) => code === issue.code && String(path) === String(issue.path) && path !== issue.path,
  );
}

/** The message with the value, if it does not say it already. Issues have their input with `reportInput`. */
function withInput(message: string, { input }: { readonly input?: unknown }): string {
  const isShown = typeof input === "object" || input === undefined || input === "" || /, (not|but) /.test(message);
  return isShown || !message.startsWith("must ") ? message : `${message}, not ${show(input)}`;
}

/** @param message what Zod reports for all unknown keys of one path: `UNKNOWN_KEY` and the known ones */
function whyUnknown(key: string, message: string): string {
  if (!message.startsWith(UNKNOWN_KEY)) return message;
  const meant = suggest(key, message.slice(UNKNOWN_KEY.length).split(", "));
  return meant === "" ? message : `is not a known key${meant}`;
}

function isOfAnotherType(issue: z.core.$ZodIssue): issue is z.core.$ZodIssueInvalidType {
  return issue.code === "invalid_type" && issue.path.length === 0;
}

function mustBe(what: string, input: unknown): string {
  if (input === undefined) return `is missing; it must be ${what}`;
  return input === null ? `must be ${what}, but there is no value` : `must be ${what}, not ${show(input)}`;
}

function size(bound: number | bigint, end: "least" | "most", input: unknown): string {
  if (typeof input === "string") return `must have at ${end} ${bound} characters, not ${input.length}`;
  if (Array.isArray(input))
    return `must have at ${end} ${bound} ${bound === 1 ? "entry" : "entries"}, not ${input.length}`;
  return `must be at ${end} ${bound}, not ${show(input)}`;
}

/** A short description of a value for a sentence. */
function show(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "a map";
  if (typeof value !== "string") return String(value);
  return `the text ${quote(value)}`;
}

function either(values: readonly unknown[]): string {
  const names = values.filter((value) => value !== undefined).map(String);
  return names.length < 2 ? (names[0] ?? "something else") : `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
}

function memberOf(input: unknown, key: string | undefined): unknown {
  return key === undefined || typeof input !== "object" || input === null
    ? input
    : (input as Record<string, unknown>)[key];
}

function shapeOf(schema: unknown): object {
  return typeof schema === "object" && schema !== null && "shape" in schema && schema.shape ? schema.shape : {};
}
