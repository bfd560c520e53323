/**
 * `npm run livekit`: a conversation with the agent of `floor-agent.ts`, in text, so that it needs neither a room nor a
 * model. Prints the conversation and the six outcomes, and fails if an outcome is wrong.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { initializeLogger, llm, voice } from "@livekit/agents";
import { createClient, keepLease } from "../../src/client/interlock-client.ts";
import { openNode } from "../car/node.ts";
import { FloorAgent } from "./floor-agent.ts";

/** LiveKit requires a model, although `FloorAgent` answers in its place. */
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
const agent = new FloorAgent(client, { agentId: "dialog_agent", userId: "driver" });
await session.start({ agent });
opened.defer(() => session.close());

const ask = async (words: string): Promise<string> => {
  console.log(`driver: ${words}`);
  const run = await session.run({ userInput: words }).wait();
  const spoken = run.events.flatMap((event) => (event.type === "message" ? [event.item.textContent ?? ""] : []));
  console.log(`agent:  ${spoken.join(" ")}`);
  return spoken.join(" ");
};

const { session: music } = await client.createSession({ agentId: "music_agent", userId: "driver", activate: true });
const lease = keepLease(client, music.id, true, { onLapsed: console.error });
lease.note(music);
opened.defer(() => lease.stop());
const musicLog = client.openSession(music.id);

let outcomes = 0;
const outcome = (isRight: boolean, what: string): void => {
  outcomes += 1;
  assert.ok(isRight, `${outcomes}. wrong outcome: ${what}`);
  console.log(`  ${outcomes}. ${what}`);
};

const answer = await ask("What is the weather like?");
outcome(answer !== "", "the agent answers");

const { session: call } = await client.createSession({ agentId: "phone_agent", userId: "driver", activate: true });
const refusal = await ask("And tomorrow?");
outcome(refusal !== "" && refusal !== answer, "in a call it says why it may not speak");
const { session: duringCall } = await client.loadSession({ sessionId: call.id });
outcome(duringCall.state === "active", "the call goes on");

await client.archiveSession(call.id);
outcome((await ask("What is the weather like?")) === answer, "after the call it answers as before");

// As LiveKit calls it after the driver has interrupted the answer.
const context = new llm.ChatContext();
context.addMessage({ role: "assistant", content: "Sunny,", interrupted: true });
context.addMessage({ role: "user", content: "And tomorrow?" });
for await (const _ of await agent.llmNode(context));
const { sessions } = await client.listSessions({ agentId: "dialog_agent", userId: "driver" });
const { messages } = await client.listMessages(sessions[0]!.id);
const cut = messages.find(({ playedUpTo }) => playedUpTo !== undefined);
outcome(cut?.content === answer && cut.playedUpTo === 6, "of an interrupted answer it knows what was heard");

await client.archiveSession(music.id);
const heard: string[] = [];
for await (const event of musicLog) {
  if (event.type === "session_transition") heard.push(`${event.data.to} ${event.data.level ?? ""}`);
  if (heard.at(-1)?.startsWith("archived")) break;
}
const isHeardBeneath = /ducked\S* -14,.*paused .*ducked\S* -14,/.test(heard.join(","));
outcome(isHeardBeneath, `the music went on 14 dB quieter beneath both answers, and was silent in the call: ${heard}`);
