import type { Agent, Part, RunControl, Turn } from "../../src/agents/agent.ts";
import { AppError } from "../../src/protocol/errors.ts";
import type { AgentId } from "../../src/protocol/ids.ts";

/** An agent behind a URL. It sends the user's message with POST; the text of the response is the reply. */
export function createHttpAgent(id: AgentId, url: string): Agent {
  return {
    id,
    yields: "hold",
    restartable: false,
    async *run({ input }: Turn, { signal }: RunControl): AsyncGenerator<Part> {
      signal.throwIfAborted();
      const ending = new AbortController();
      const end = () => ending.abort(signal.reason);
      signal.addEventListener("abort", end);
      try {
        const reply = await fetch(url, { method: "POST", body: input.content, signal: ending.signal });
        if (reply.status === 429) throw new AppError("provider_rate_limited");
        if (!reply.ok || !reply.body) throw new AppError("provider_refused", `The agent answered ${reply.status}.`);
        for await (const text of reply.body.pipeThrough(new TextDecoderStream())) yield { type: "text", text };
      } catch (error) {
        if (signal.aborted) return;
        throw error instanceof AppError ? error : new AppError("provider_unreachable", undefined, { cause: error });
      } finally {
        signal.removeEventListener("abort", end);
        ending.abort();
      }
    },
  };
}
