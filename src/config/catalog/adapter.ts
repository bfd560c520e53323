import { z } from "zod";
import { SHORT_NAME, SHORT_NAME_FORM } from "../../protocol/ids.ts";
import { duration } from "../quantities.ts";
import { areTooLarge, PatternText, TOO_LARGE_TOGETHER } from "./pattern.ts";
import { path, program, variableName } from "./program-entry.ts";

const text = z.string().min(1).max(16_384);
const words = z.union([text.transform((one) => [one]), z.array(text).min(1).max(1_000)]);
const tokens = z.int().min(0).max(10_000_000).default(0);

/** The default for token timeouts, in ms: longer than a model takes to begin, shorter than a person waits. */
const USUAL_PATIENCE_MS = 30_000;

/** The newest turns that a model receives whole beside a summary. */
export const DEFAULT_KEPT_TURNS = 4;

/** What a pause does to a run of this agent, and whether an attempt that has already produced output may restart. */
const conduct = {
  yields: z.enum(["hold", "abort"]),
  restartable: z.boolean(),
};

/** One rule of a scripted agent. Its actions run in this order: fail, ask, confirm, delegate, say. */
const Reply = z.strictObject({
  match: PatternText.optional(),
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
      name: z.string().regex(SHORT_NAME, SHORT_NAME_FORM),
      task: z.string().min(1).max(6_000),
    })
    .optional(),
});

const Scripted = z.strictObject({
  kind: z.literal("scripted"),
  replies: z
    .array(Reply)
    .max(1_000)
    .refine((replies) => !areTooLarge(replies.flatMap(({ match }) => match ?? [])), TOO_LARGE_TOGETHER)
    .default([]),
  yields: conduct.yields.default("hold"),
  restartable: conduct.restartable.default(true),
});

/** When the model summarises its sessions, and what it receives beside the newest summary. */
const Summary = z.strictObject({
  /** Turns since the last summary. */
  after: z.int().min(1).max(1_000).default(20),
  /** The newest turns that the model receives whole, also if the summary covers them. */
  keep: z.int().min(0).max(100).default(DEFAULT_KEPT_TURNS),
  /** Another model of the same provider. */
  model: z.string().min(1).max(256).optional(),
});

const AiSdk = z
  .strictObject({
    kind: z.literal("ai-sdk"),
    provider: z.enum(["openai", "anthropic", "google", "openai-compatible"]),
    model: z.string().min(1).max(256),
    base_url: z.url({ protocol: /^https?$/ }).optional(),
    /** The name of the environment variable with the key: the file itself never contains keys. */
    api_key_env: variableName.optional(),
    /** How long the provider may be silent: before its first token, and between two tokens. */
    first_token_timeout: duration({ min: "10ms", max: "1h" }).default(USUAL_PATIENCE_MS),
    next_token_timeout: duration({ min: "10ms", max: "1h" }).default(USUAL_PATIENCE_MS),
    /**
     * `tags`: text between `<think>` and `</think>` is reasoning. Left out: only what the provider marks as reasoning
     * is.
     */
    reasoning: z.enum(["tags"]).optional(),
    /** Left out: no summaries. */
    summary: Summary.optional(),
    /** Left out: `hold` for an agent with tools, whose actions must not be repeated; else `abort`. */
    yields: conduct.yields.optional(),
    restartable: conduct.restartable.default(false),
  })
  .refine((adapter) => adapter.provider !== "openai-compatible" || adapter.base_url !== undefined, {
    path: ["base_url"],
    message: "is required with provider openai-compatible",
  });

const Command = z.strictObject({
  kind: z.literal("command"),
  command: path,
  ...program,
  format: z.enum(["text", "jsonl"]).default("text"),
  history: z.boolean().default(false),
  yields: conduct.yields.default("hold"),
  restartable: conduct.restartable.default(false),
});

const Acp = z
  .strictObject({
    kind: z.literal("acp"),
    profile: z.enum([
      "codex",
      "claude-code",
      "claude-code-glm",
      "claude-code-kimi",
      "claude-code-minimax",
      "kimi",
      "gemini",
      "opencode",
      "qwen",
      "custom",
    ]),
    ...program,
    command: path.optional(),
    args: program.args.unwrap().optional(),
    /** The agent's own name for a mode, which determines what it may do without confirmation. */
    mode: z.string().min(1).max(256).optional(),
    yields: conduct.yields.default("hold"),
    restartable: conduct.restartable.default(false),
  })
  .refine((adapter) => adapter.profile !== "custom" || adapter.command !== undefined, {
    path: ["command"],
    message: "is required with profile custom",
  });

/** A participant: a program outside Interlock that follows its session's events and takes no turns. */
const External = z.strictObject({ kind: z.literal("external") });

export const Adapter = z.discriminatedUnion("kind", [Scripted, AiSdk, Command, Acp, External]);
export type Adapter = z.infer<typeof Adapter>;
export type ScriptedAdapter = z.infer<typeof Scripted>;
export type ScriptedReply = z.infer<typeof Reply>;
export type AcpAdapter = z.infer<typeof Acp>;
export type CommandAdapter = z.infer<typeof Command>;
export type AiSdkAdapter = z.infer<typeof AiSdk> & { readonly yields: "hold" | "abort" };

export type ExternalAdapter = z.infer<typeof External> & {
  readonly yields: "abort";
  readonly restartable: false;
};

/** The adapter, with the keys that it takes from the rest of the agent's entry. */
export type ResolvedAdapter = Exclude<Adapter, { kind: "ai-sdk" | "external" }> | AiSdkAdapter | ExternalAdapter;

/** A run that uses tools is held while it is paused, because another attempt would use them again. */
export function resolveAdapter(adapter: Adapter, hasTools: boolean): ResolvedAdapter {
  if (adapter.kind === "external") return { ...adapter, yields: "abort", restartable: false };
  if (adapter.kind !== "ai-sdk") return adapter;
  return { ...adapter, yields: adapter.yields ?? (hasTools ? "hold" : "abort") };
}
