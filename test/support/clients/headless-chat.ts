import { AbstractChat, type ChatInit, type ChatState, type ChatStatus, DefaultChatTransport, type UIMessage } from "ai";
import type { InterlockDataParts } from "../../../src/protocol/chat-data.ts";

export type InterlockMessage = UIMessage<unknown, InterlockDataParts>;

class PlainState implements ChatState<InterlockMessage> {
  status: ChatStatus = "ready";
  error: Error | undefined;
  messages: InterlockMessage[];

  constructor(messages: InterlockMessage[]) {
    this.messages = messages;
  }

  pushMessage = (message: InterlockMessage) => {
    this.messages = [...this.messages, message];
  };
  popMessage = () => {
    this.messages = this.messages.slice(0, -1);
  };
  replaceMessage = (index: number, message: InterlockMessage) => {
    this.messages = this.messages.with(index, structuredClone(message));
  };
  snapshot = <T>(thing: T): T => structuredClone(thing);
}

/** `useChat` without React: the AI SDK's own chat and transport, with plain values as state. */
export class HeadlessChat extends AbstractChat<InterlockMessage> {
  readonly errors: Error[] = [];

  constructor(url: string, id: string, rest: Partial<ChatInit<InterlockMessage>> & { body?: object } = {}) {
    const { body, messages = [], ...init } = rest;
    const errors: Error[] = [];
    super({
      id,
      state: new PlainState(messages),
      transport: new DefaultChatTransport({ api: `${url}/api/chat`, ...(body && { body }) }),
      onError: (error) => errors.push(error),
      ...init,
    });
    this.errors = errors;
  }

  /** The text of the reply so far. */
  get text(): string {
    const { lastMessage } = this;
    return (lastMessage?.role === "assistant" ? lastMessage.parts : [])
      .map((part) => (part.type === "text" ? part.text : ""))
      .join("");
  }

  get partTypes(): string[] {
    return (this.lastMessage?.parts ?? []).map(({ type }) => type);
  }
}
