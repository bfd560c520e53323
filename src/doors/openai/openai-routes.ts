import type { Routes } from "../../gateway/route-context.ts";
import { LiveRuns } from "../live-runs.ts";
import { chatCompletionRoutes } from "./chat-completions.ts";
import { modelRoutes } from "./models.ts";
import type { OpenAiContext, OpenAiDoor } from "./openai-run.ts";
import { responseRoutes } from "./responses.ts";

/** The door for clients of OpenAI's API. */
export function openAiRoutes(app: Routes, context: OpenAiContext): void {
  const door: OpenAiDoor = { context, runs: new LiveRuns(context) };
  modelRoutes(app, context);
  chatCompletionRoutes(app, door);
  responseRoutes(app, door);
}
