/**
 * `npm start`: a conversation with the agent of `floor-agent.ts`, in text, so that it needs neither a room nor a model.
 * Prints what the agent says, and fails if it speaks while a call has the floor.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { initializeLogger, llm, voice } from "@livekit/agents";
import { createClient } from "../../src/client/interlock-client.ts";
import { openNode } from "../car/node.ts";
import { FloorAgent } from "./floor-agent.ts";

/** LiveKit demands a model; `FloorAgent` answers in its place. */
class NoModel extends llm.LLM {
  override label(): string {
    return "interlock";
  }
  override chat(): llm.LLMStream {
    throw new Error("the replies come from the floor's agent");
  }
}

initializeLogger({ pretty: false, level: "error" });
await using opened = new AsyncDisposableStack();
const folder = await mkdtemp(join(tmpdir(), "interlock-livekit-"));
opened.defer(() => rm(folder, { recursive: true, force: true }));
const client = createClient({ baseUrl: await openNode(folder, opened) });
const session = new voice.AgentSession({ llm: new NoModel() });
await session.start({ agent: new FloorAgent(client, { agentId: "dialog_agent", userId: "driver" }) });
opened.defer(() => session.close());

const ask = async (words: string): Promise<string> => {
  console.log(`driver: ${words}`);
  const run = await session.run({ userInput: words }).wait();
  const spoken = run.events.flatMap((event) => (event.type === "message" ? [event.item.textContent ?? ""] : []));
  console.log(`agent:  ${spoken.join(" ")}`);
  return spoken.join(" ");
};

const answer = await ask("What is the weather like?");
assert.notEqual(answer, "");

const { session: call } = await client.createSession({ agentId: "phone_agent", userId: "driver", activate: true });
const refusal = await ask("And tomorrow?");
assert.notEqual(refusal, answer);
assert.notEqual(refusal, "");

await client.archiveSession(call.id);
assert.equal(await ask("What is the weather like?"), answer);
