import { z } from "zod";
import { duration } from "./duration.ts";

const text = z.string().min(1).max(16_384);
const words = z.union([text.transform((one) => [one]), z.array(text).min(1).max(1_000)]);
const tokens = z.int().min(0).max(10_000_000).default(0);

/** What a pause does to a run of this agent, and whether an attempt that already spoke may start again. */
const conduct = {
  yields: z.enum(["hold", "abort"]),
  restartable: z.boolean(),
};

const pattern = z
  .string()
  .min(1)
  .max(1_024)
  .transform((source, context) => {
    try {
      return new RegExp(source, "iu");
    } catch (error) {
      context.issues.push({ code: "custom", input: source, message: `is no regular expression: ${reasonOf(error)}` });
      return z.NEVER;
    }
  });

/** `Invalid regular expression: /(/iu: Unterminated group` → `Unterminated group`. */
function reasonOf(error: unknown): string {
  return (error as Error).message.split(": ").at(-1)!;
}

/** One rule of a scripted agent. What it does, in this order: fail, ask, confirm, delegate, say. */
const Reply = z.strictObject({
  match: pattern.optional(),
  say: words.optional(),
  delay: duration({ max: "1h" }).default(20),
  repeat: z.int().min(1).max(100_000).default(1),
  usage: z.strictObject({ input: tokens, output: tokens }).optional(),
  confirm: z
    .strictObject({
      tool: text,
      arguments: z.record(z.string(), z.unknown()).default({}),
      sensitive: z.boolean().default(true),
    })
    .optional(),
  otherwise: words.optional(),
  ask: z
    .strictObject({
      question: text,
      options: z.array(text).max(100).default([]),
      multi_select: z.boolean().default(false),
    })
    .optional(),
  fail: z
    .strictObject({
      code: z.enum(["provider_rate_limited", "provider_unreachable", "provider_refused"]),
      times: z.int().min(1).max(1_000).default(1),
      message: text.optional(),
    })
    .optional(),
  delegate: z
    .strictObject({
      name: z.string().regex(/^[a-z0-9_-]{1,64}$/, "1 to 64 of a-z 0-9 _ -"),
      task: z.string().min(1).max(6_000),
    })
    .optional(),
});

const Scripted = z.strictObject({
  kind: z.literal("scripted"),
  replies: z.array(Reply).max(1_000).default([]),
  yields: conduct.yields.default("hold"),
  restartable: conduct.restartable.default(true),
});

const AiSdk = z
  .strictObject({
    kind: z.literal("ai-sdk"),
    provider: z.enum(["openai", "anthropic", "openai-compatible"]),
    model: z.string().min(1).max(256),
    base_url: z.url({ protocol: /^https?$/ }).optional(),
    /** The name of an environment variable: keys never stand in the file. */
    api_key_env: z
      .string()
      .regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, "the name of an environment variable")
      .optional(),
    yields: conduct.yields.default("abort"),
    restartable: conduct.restartable.default(false),
  })
  .refine((adapter) => adapter.provider !== "openai-compatible" || adapter.base_url !== undefined, {
    path: ["base_url"],
    message: "is required with provider openai-compatible",
  });

export const Adapter = z.discriminatedUnion("kind", [Scripted, AiSdk]);
export type Adapter = z.infer<typeof Adapter>;
export type ScriptedAdapter = z.infer<typeof Scripted>;
export type ScriptedReply = z.infer<typeof Reply>;
export type AiSdkAdapter = z.infer<typeof AiSdk>;
