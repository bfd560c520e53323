import { z } from "zod";
import { type Answer, MAX_OPTION_UNITS, type OwnOption } from "../../protocol/interaction.ts";
import { cleanText, textWithin } from "../../shared/text.ts";
import type { NewInteraction } from "../agent.ts";
import { ToolUpdate } from "./updates.ts";

const text = z.string();

/** The fields of `session/request_permission` that are used. */
export const Permission = z.looseObject({
  sessionId: text,
  toolCall: ToolUpdate,
  options: z.array(z.looseObject({ optionId: text, name: text.nullish().catch(undefined), kind: text })).max(100),
});
export type Permission = z.infer<typeof Permission>;

type Outcome = { outcome: { outcome: "selected"; optionId: string } | { outcome: "cancelled" } };

export const CANCELLED: Outcome = { outcome: { outcome: "cancelled" } };

/**
 * The answer to the agent. Each permission is granted once, even if the user approved the tool for the whole session,
 * because an agent that remembers an approval applies its own rule: per command, folder or user.
 */
export function outcomeOf({ options }: Permission, isAllowed: boolean, choice?: string): Outcome {
  const chosen = choice !== undefined && options.find((one) => choiceOf(one) === choice);
  if (chosen) return { outcome: { outcome: "selected", optionId: chosen.optionId } };
  const kinds = isAllowed ? ["allow_once", "allow_always"] : ["reject_once", "reject_always"];
  for (const kind of kinds) {
    const option = options.find((one) => one.kind === kind);
    if (option) return { outcome: { outcome: "selected", optionId: option.optionId } };
  }
  return CANCELLED;
}

/** The maximum number of an agent's own ways to approve. */
const MAX_OWN = 20;

const choiceOf = ({ optionId }: Permission["options"][number]) => `approve:${optionId}` as const;

/**
 * The agent's own options, if a user could not tell by `approve` which one is meant: several approve once, or the agent
 * asks how to go on in another mode.
 * @param redact removes the values of secrets
 */
export function ownOptionsOf(
  { options, toolCall }: Permission,
  redact: (text: string) => string,
): OwnOption[] | undefined {
  const isPlain = (id: string) => id !== "" && id.length <= 256 && redact(cleanText(id)) === id;
  const approving = options
    .filter(({ kind, optionId }) => kind.startsWith("allow_") && isPlain(optionId))
    .slice(0, MAX_OWN);
  const once = approving.filter(({ kind }) => kind === "allow_once");
  if (approving.length < 2 || (once.length < 2 && toolCall.kind !== "switch_mode")) return undefined;
  const labelOf = ({ name, optionId }: Permission["options"][number]) =>
    textWithin(redact(cleanText(name || optionId)), MAX_OPTION_UNITS);
  const rejecting = options.find(({ kind }) => kind.startsWith("reject_"));
  return [
    ...approving.map((option) => ({ value: choiceOf(option), label: labelOf(option) })),
    { value: "reject_with_reply", label: "Reject, with a reply" },
    { value: "reject", label: rejecting ? labelOf(rejecting) : "Reject" },
  ];
}

const Choice = z.looseObject({ const: text, title: text.optional() });
const Field = z.looseObject({
  type: z.unknown().optional(),
  title: text.optional(),
  description: text.optional(),
  oneOf: z.array(Choice).optional(),
  enum: z.array(text).optional(),
  items: z.looseObject({ anyOf: z.array(Choice).optional(), enum: z.array(text).optional() }).optional(),
});

/** `elicitation/create`: a form with questions for the user. */
export const Form = z.looseObject({
  mode: z.literal("form"),
  message: text,
  requestedSchema: z.looseObject({ properties: z.record(text, Field) }),
});
export type Form = z.infer<typeof Form>;

interface Question {
  readonly key: string;
  readonly interaction: NewInteraction;
  /** The value of the answer in the form. */
  fill(answer: Extract<Answer, { kind: "question" }>): Record<string, unknown>;
}

/**
 * One question per field of a form. A field `x_custom` holds the user's free text for `x`.
 * @param redact removes the values of secrets from what the user sees
 */
export function questionsOf(
  { message, requestedSchema: { properties } }: Form,
  redact: (text: string) => string,
): Question[] {
  const fields = Object.entries(properties).filter(([key]) => !(key.endsWith("_custom") && ownerOf(key) in properties));
  return fields.slice(0, 20).map(([key, field]) => {
    const isList = field.type === "array";
    const choices = (isList ? field.items?.anyOf : field.oneOf) ?? [];
    const plain = (isList ? field.items?.enum : field.enum) ?? [];
    // As the user sees it, and the answer repeats it.
    const shown = (label: string) => textWithin(redact(label), MAX_OPTION_UNITS);
    // The message of a form asks, and the title of a field may be a single word.
    const question = [...new Set([message, field.title ?? field.description])].filter(Boolean).join("\n\n");
    const constOf = (label: string) => choices.find((choice) => shown(labelOf(choice)) === label)?.const ?? label;
    return {
      key,
      interaction: {
        kind: "question",
        question: redact(question),
        options: [...choices.map(labelOf), ...plain].map(shown),
        ...(isList && { multiSelect: true }),
      },
      fill({ selected, customInput }) {
        const own = `${key}_custom`;
        if (customInput !== undefined && own in properties) return { [own]: customInput };
        const values = selected.length > 0 ? selected.map(constOf) : [customInput ?? ""];
        return { [key]: isList ? values : toType(values[0] ?? "", field.type) };
      },
    };
  });
}

const labelOf = ({ title, const: value }: z.infer<typeof Choice>): string => title ?? value;

const ownerOf = (key: string): string => key.slice(0, -"_custom".length);

function toType(value: string, type: unknown): unknown {
  if (type === "boolean") return /^(true|yes|1)$/i.test(value);
  return (type === "number" || type === "integer") && Number.isFinite(Number(value)) ? Number(value) : value;
}
