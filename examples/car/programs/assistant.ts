/**
 * `assistant.ts WORDS`: sends the words to the dialog agent, and speaks its reply sentence by sentence while the agent
 * writes it. The agent runs on the server; this program only speaks, and reports how much was heard. The session's
 * state decides whether it may be heard.
 */
import { join } from "node:path";
import { MessageTexts } from "../../../src/client/interlock-client.ts";
import { Player } from "../sound/player.ts";
import { synthesise } from "../sound/speech.ts";
import { readEnvironment } from "./environment.ts";

/** The end of a sentence: punctuation before a space, or Chinese punctuation. */
const SENTENCE = /.+?(?:[.!?](?=\s)|[。！？])/gsu;

const [, , words = ""] = process.argv;
const { client, userId, folder } = readEnvironment();
const { session } = await client.createSession({ agentId: "dialog_agent", userId, activate: true });
const texts = new MessageTexts();
let spoken: Promise<void> = Promise.resolve();
let current: Player | undefined;
let isHeard = true;
let count = 0;
const reports: Promise<unknown>[] = [];

/** Speak the sentence after those before it, and then report that the reply was heard up to its end. */
function say(sentence: string, messageId: string, upTo: number): void {
  const file = join(folder, `reply-${process.pid}-${count++}.wav`);
  const ready = synthesise(sentence, file);
  spoken = spoken.then(async () => {
    current = new Player(await ready, { sink: "voice" });
    if (isHeard) current.play(0);
    await current.ended;
    reports.push(client.played(session.id, messageId, upTo));
  });
}

/** How much of each message was given to the voice: a reply may have several. */
const given = new Map<string, number>();
const stream = client.openSession(session.id);
await client.send({ type: "chat", sessionId: session.id, content: words });
for await (const event of stream) {
  if (event.type === "session_transition") {
    isHeard = event.data.to.startsWith("active") || event.data.to.startsWith("ducked");
    if (isHeard) current?.play(event.data.level ?? 0);
    else current?.pause();
  }
  const text = texts.take(event);
  if (text?.agent?.kind === "master") {
    let said = given.get(text.messageId) ?? 0;
    for (const [sentence] of text.text.slice(said).matchAll(SENTENCE)) {
      said += sentence.length;
      say(sentence, text.messageId, said);
    }
    if (!text.isStreaming && text.text.length > said) {
      const rest = text.text.slice(said);
      said = text.text.length;
      say(rest, text.messageId, said);
    }
    given.set(text.messageId, said);
  }
  if (event.type === "complete") break;
}
await spoken;
await Promise.all(reports);
await client.archiveSession(session.id);
