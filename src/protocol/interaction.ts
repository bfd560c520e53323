import { z } from "zod";
import { cleanText } from "../shared/text.ts";
import { RequestId } from "./ids.ts";

/** The longest question, the longest option, in UTF-16 units, and the maximum number of options. */
export const MAX_QUESTION_UNITS = 16_384;
export const MAX_OPTION_UNITS = 1_024;
export const MAX_OPTIONS = 100;

/** A tool call that an agent requests. `arguments` is JSON text, as providers send it. */
export const ToolCall = z
  .object({
    toolCallId: z.string().min(1).max(256),
    function: z.object({ name: z.string().min(1).max(256), arguments: z.string() }),
  })
  .meta({ id: "ToolCall" });
export type ToolCall = z.infer<typeof ToolCall>;

export const CONFIRMATION_OPTIONS = [
  { value: "approve", label: "Approve" },
  { value: "approve_always", label: "Always approve in this session" },
  { value: "reject_with_reply", label: "Reject, with a reply" },
  { value: "reject", label: "Reject" },
] as const;

/** One of the agent's own ways to approve a call, by its id. */
const Choice = z.templateLiteral(["approve:", z.string().min(1).max(256)]);
/** An agent's own options in place of `CONFIRMATION_OPTIONS`, as users see them. */
const OwnOption = z.object({
  value: z.union([Choice, z.enum(["reject_with_reply", "reject"])]),
  label: z.string().max(MAX_OPTION_UNITS),
});
export type OwnOption = z.infer<typeof OwnOption>;

/** An interaction that an agent waits for: a person must confirm a tool call or answer a question. */
export const Interaction = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("confirmation"),
    requestId: RequestId,
    toolCall: ToolCall,
    isSensitive: z.boolean(),
    /** What `approve_always` approves. Absent: the tool of this name. */
    approves: z.string().max(512).optional(),
    options: z.array(OwnOption).max(MAX_OPTIONS).optional(),
  }),
  z.object({
    kind: z.literal("question"),
    requestId: RequestId,
    question: z.string().max(MAX_QUESTION_UNITS),
    options: z.array(z.string().max(MAX_OPTION_UNITS)).max(MAX_OPTIONS),
    multiSelect: z.boolean().optional(),
  }),
]);
export type Interaction = z.infer<typeof Interaction>;

const text = (max: number) => z.string().max(max).overwrite(cleanText);

/** The `response` of a client to a `tool_confirmation_request`. */
export const ConfirmationResponse = z.union(
  [
    z.enum(["approve", "approve_always", "reject"]),
    Choice,
    z.object({ type: z.literal("reject_with_reply"), reason: text(16_384) }),
    z.object({ rejectWithReply: text(16_384) }),
  ],
  {
    error: `must be approve, approve_always, reject, an option's value, or {"type": "reject_with_reply", "reason": "…"}`,
  },
);

/** The `response` of a client to a `user_question_request`. */
export const QuestionResponse = z.union(
  [
    text(16_384),
    z
      .object({
        selected: z.union([text(MAX_OPTION_UNITS), z.array(text(MAX_OPTION_UNITS)).max(MAX_OPTIONS)]),
        customInput: text(16_384).optional(),
        cancelled: z.boolean().optional(),
      })
      .refine(({ selected, customInput, cancelled }) => selected.length > 0 || customInput !== undefined || cancelled, {
        error: "must select an option, or have a customInput",
      }),
    z.object({ customInput: text(16_384) }),
    z.object({ cancelled: z.literal(true) }),
  ],
  {
    error: `must be a text of up to 16384 units, or have {"selected": …} with an option or a list, {"customInput": "…"} or {"cancelled": true}`,
  },
);

/** An answer as the agent receives it. */
export const Answer = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("confirmation"),
    requestId: RequestId,
    verdict: z.enum(["approve", "approve_always", "reject"]),
    /** The value of the agent's own option that approves. */
    choice: Choice.optional(),
    reason: z.string().optional(),
  }),
  z.object({
    kind: z.literal("question"),
    requestId: RequestId,
    selected: z.array(z.string()),
    /** `selected` is a text: an option, or the user's own words. */
    isText: z.literal(true).optional(),
    customInput: z.string().optional(),
    cancelled: z.boolean().optional(),
  }),
]);
export type Answer = z.infer<typeof Answer>;

/** A client's response to a confirmation, as the agent receives it. */
export function confirmationAnswer(requestId: RequestId, response: z.infer<typeof ConfirmationResponse>): Answer {
  if (response === "approve" || response === "approve_always" || response === "reject")
    return { kind: "confirmation", requestId, verdict: response };
  if (typeof response === "string") return { kind: "confirmation", requestId, verdict: "approve", choice: response };
  const reason = "type" in response ? response.reason : response.rejectWithReply;
  return { kind: "confirmation", requestId, verdict: "reject", reason };
}

/** A client's response to a question, as the agent receives it. */
export function questionAnswer(requestId: RequestId, response: z.infer<typeof QuestionResponse>): Answer {
  if (typeof response === "string") return { kind: "question", requestId, selected: [response], isText: true };
  const selected = "selected" in response ? [response.selected].flat() : [];
  return {
    kind: "question",
    requestId,
    selected,
    ...("customInput" in response && response.customInput !== undefined && { customInput: response.customInput }),
    ...("cancelled" in response && response.cancelled !== undefined && { cancelled: response.cancelled }),
  };
}
