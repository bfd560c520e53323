import type { LanguageModel } from "ai";
import type { AiSdkAdapter } from "../config/catalog/adapter.ts";
import type { Environment } from "./process/program.ts";
import { fetchFor } from "./provider-answer.ts";

const DEFAULT_KEYS = {
  openai: "OPENAI_API_KEY",
  anthropic: "ANTHROPIC_API_KEY",
  google: "GOOGLE_GENERATIVE_AI_API_KEY",
  "openai-compatible": undefined,
};
/**
 * Set explicitly, because the SDK would otherwise read them from environment variables, which the catalogue does not
 * show.
 */
const BASE_URLS = {
  openai: "https://api.openai.com/v1",
  anthropic: "https://api.anthropic.com/v1",
  google: "https://generativelanguage.googleapis.com/v1beta",
};
const VISIBLE = /^[\x21-\x7e]+$/;

/**
 * Why this adapter cannot work, as text for the operator: its key is missing or malformed. (As a header, a key with a
 * line break would cause an error whose text contains the key.)
 */
export function findKeyProblem(adapter: AiSdkAdapter, env: Environment): string | undefined {
  const name = keyVariable(adapter);
  if (name === undefined) return undefined;
  const key = env[name]?.trim();
  if (!key) return `the environment variable ${name} is not set`;
  return VISIBLE.test(key) ? undefined : `the environment variable ${name} contains characters that a key cannot have`;
}

export const hostOf = ({ provider, base_url }: AiSdkAdapter): string | undefined => {
  const url = base_url ?? (provider === "openai-compatible" ? "" : BASE_URLS[provider]);
  return URL.canParse(url) ? new URL(url).host : undefined;
};

/** The key of this adapter's provider, without spaces around it; undefined if it has none. */
export const apiKeyOf = (adapter: AiSdkAdapter, env: Environment): string | undefined =>
  env[keyVariable(adapter) ?? ""]?.trim() || undefined;

/** The variable with the key of an adapter's provider; undefined if it has no key. */
export function keyVariable({ api_key_env, provider }: AiSdkAdapter): string | undefined {
  return api_key_env ?? DEFAULT_KEYS[provider];
}

type Model = Exclude<LanguageModel, string>;

/** The model of an entry. Its answers are bounded: see `boundedFetch`. */
export async function loadModel(adapter: AiSdkAdapter, env: Environment): Promise<Model> {
  const model = await loadPlainModel(adapter, env);
  if (adapter.reasoning !== "tags") return model;
  const { extractReasoningMiddleware, wrapLanguageModel } = await import("ai");
  return wrapLanguageModel({
    model: model as Parameters<typeof wrapLanguageModel>[0]["model"],
    middleware: extractReasoningMiddleware({ tagName: "think" }),
  });
}

async function loadPlainModel(adapter: AiSdkAdapter, env: Environment): Promise<Model> {
  // The SDK writes its warnings to stderr, beside the log, once for each request.
  globalThis.AI_SDK_LOG_WARNINGS = false;
  const { provider, model, base_url } = adapter;
  const fetch = fetchFor(provider);
  const apiKey = apiKeyOf(adapter, env);
  switch (provider) {
    case "openai": {
      const { createOpenAI } = await import("@ai-sdk/openai");
      return createOpenAI({ apiKey: apiKey!, baseURL: base_url ?? BASE_URLS.openai, fetch })(model);
    }
    case "anthropic": {
      const { createAnthropic } = await import("@ai-sdk/anthropic");
      return createAnthropic({ apiKey: apiKey!, baseURL: base_url ?? BASE_URLS.anthropic, fetch })(model);
    }
    case "google": {
      const { createGoogle } = await import("@ai-sdk/google");
      return createGoogle({ apiKey: apiKey!, baseURL: base_url ?? BASE_URLS.google, fetch })(model);
    }
    case "openai-compatible": {
      const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
      const key = apiKey === undefined ? {} : { apiKey };
      return createOpenAICompatible({ name: provider, baseURL: base_url!, includeUsage: true, fetch, ...key })(model);
    }
  }
}
