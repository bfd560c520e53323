import type { Routes } from "../../gateway/route-context.ts";
import { LiveRuns } from "../live-runs.ts";
import { RepeatedRequests } from "../repeated-requests.ts";
import { chatCompletionRoutes } from "./chat-completions.ts";
import { modelRoutes } from "./models.ts";
import type { OpenAiContext, OpenAiDoor } from "./openai-run.ts";
import { responseRoutes } from "./responses.ts";

/** The door for clients of OpenAI's API. */
export function openAiRoutes(app: Routes, context: OpenAiContext): void {
  const { bus, stopwatch, store } = context;
  const repeats = new RepeatedRequests({ bus, clock: stopwatch, epoch: store.epoch });
  app.addHook("onClose", async () => repeats.close());
  const door: OpenAiDoor = { context, runs: new LiveRuns(context), repeats };
  modelRoutes(app, context);
  chatCompletionRoutes(app, door);
  responseRoutes(app, door);
}
