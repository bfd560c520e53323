import { ReadableStream } from "node:stream/web";
import { type llm, voice } from "@livekit/agents";
import { type Client, ClientError, MessageTexts } from "../../src/client/interlock-client.ts";

/**
 * A LiveKit agent whose replies come from an agent of the catalogue, and that speaks only while its session may be
 * heard. LiveKit keeps speech recognition, synthesis and turn detection; Interlock decides who has the floor.
 */
export class FloorAgent extends voice.Agent {
  readonly #client: Client;
  readonly #agentId: string;
  readonly #userId: string;
  #sessionId: string | undefined;
  /** By the messages of the newest reply, in order: how much text LiveKit got of each. Empty after a refusal. */
  readonly #given = new Map<string, number>();

  constructor(client: Client, { agentId, userId }: { agentId: string; userId: string }) {
    super({ instructions: "" });
    this.#client = client;
    this.#agentId = agentId;
    this.#userId = userId;
  }

  /** LiveKit calls this with the conversation when the user has finished a sentence, and speaks the returned text. */
  override async llmNode(context: llm.ChatContext): Promise<ReadableStream<string>> {
    const messages = context.items.filter((item) => item.type === "message");
    const asked = messages.findLast(({ role }) => role === "user");
    const spoken = messages.findLast(({ role }) => role === "assistant");
    // LiveKit keeps of an interrupted reply what was heard.
    if (spoken?.interrupted) await this.#tellHeard(spoken.textContent ?? "");
    return ReadableStream.from(this.#reply(asked?.textContent ?? ""));
  }

  /** What was heard is the beginning of all messages of the reply together: a tool call makes two, for example. */
  async #tellHeard({ length }: string): Promise<void> {
    let position: [messageId: string, upTo: number] | undefined;
    let start = 0;
    for (const [messageId, given] of this.#given) {
      if (start <= length) position = [messageId, Math.min(length - start, given)];
      start += given;
    }
    if (this.#sessionId === undefined || !position) return;
    try {
      await this.#client.played(this.#sessionId, ...position);
    } catch (error) {
      // The model then takes the reply for heard; the driver's next sentence is answered all the same.
      if (!(error instanceof ClientError)) throw error;
    }
  }

  /** The reply as the agent writes it. If it has to wait for the floor, or is refused, the sentence that says why. */
  async *#reply(content: string): AsyncGenerator<string> {
    this.#given.clear();
    try {
      const { session, decision } = await this.#ask();
      const { id: sessionId, state } = session;
      this.#sessionId = sessionId;
      // It may wait for the floor longer than its listener waits for an answer.
      if (state !== "active" && state !== "ducked") return yield decision?.say ?? "";
      const { position } = await this.#client.loadSession({ sessionId });
      const stream = this.#client.openSession(sessionId, { position });
      await this.#client.send({ type: "chat", sessionId, content });
      const texts = new MessageTexts();
      for await (const event of stream) {
        const message = texts.take(event);
        if (message?.agent?.kind === "master") {
          const given = this.#given.get(message.messageId) ?? 0;
          this.#given.set(message.messageId, message.text.length);
          yield message.text.slice(given);
        }
        // Another session has the floor: LiveKit stops speaking within the word.
        if (event.type === "session_transition" && event.data.to.startsWith("paused")) this.session.interrupt();
        if (event.type === "complete") return;
      }
    } catch (error) {
      if (!(error instanceof ClientError && error.code === "rejected")) throw error;
      yield error.facts.decision?.say ?? "";
    }
  }

  /** Request the floor, with a new session the first time. */
  #ask(): ReturnType<Client["activateSession"]> {
    if (this.#sessionId !== undefined) return this.#activate(this.#sessionId);
    return this.#client.createSession({ agentId: this.#agentId, userId: this.#userId, activate: true });
  }

  /** If the user has moved the session to another seat, the one in which it goes on there. */
  async #activate(sessionId: string): ReturnType<Client["activateSession"]> {
    try {
      return await this.#client.activateSession(sessionId);
    } catch (error) {
      const { replacedBy } = error instanceof ClientError ? error.facts : {};
      if (replacedBy === undefined) throw error;
      return this.#activate(replacedBy);
    }
  }
}
