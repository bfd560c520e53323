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

  constructor(client: Client, { agentId, userId }: { agentId: string; userId: string }) {
    super({ instructions: "" });
    this.#client = client;
    this.#agentId = agentId;
    this.#userId = userId;
  }

  /** LiveKit calls this with the conversation when the user has finished a sentence, and speaks the returned text. */
  override async llmNode(context: llm.ChatContext): Promise<ReadableStream<string>> {
    const asked = context.items.findLast((item) => item.type === "message" && item.role === "user");
    return ReadableStream.from(this.#reply((asked as llm.ChatMessage | undefined)?.textContent ?? ""));
  }

  /** The reply as the agent writes it. If the floor is refused, the sentence that gives the reason. */
  async *#reply(content: string): AsyncGenerator<string> {
    try {
      const sessionId = await this.#ask();
      const { position } = await this.#client.loadSession({ sessionId });
      const stream = this.#client.openSession(sessionId, { position });
      await this.#client.send({ type: "chat", sessionId, content });
      const texts = new MessageTexts();
      let spoken = 0;
      for await (const event of stream) {
        const message = texts.take(event);
        if (message?.agent) {
          yield message.text.slice(spoken);
          spoken = message.text.length;
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
  async #ask(): Promise<string> {
    if (this.#sessionId !== undefined) return (await this.#client.activateSession(this.#sessionId)).session.id;
    const wanted = { agentId: this.#agentId, userId: this.#userId, activate: true };
    this.#sessionId = (await this.#client.createSession(wanted)).session.id;
    return this.#sessionId;
  }
}
