import { expect } from "vitest";
import type { Session } from "../../../src/protocol/session.ts";
import type { Answer, AnswerBody, NodeUnderTest, RequestOptions } from "../nodes/node-under-test.ts";
import type { StreamEvent } from "./frame-reader.ts";
import type { SseReader } from "./sse-reader.ts";

type Fields = Record<string, unknown>;
type Verb = "activate" | "pause" | "resume" | "archive" | "stop";

/** The body of an answer that must be a success. */
export async function accepted(answer: Promise<Answer>): Promise<AnswerBody> {
  const { status, text, body } = await answer;
  expect(status, text).toBe(200);
  return body;
}

/** The code and the facts of an answer that must be a refusal. */
export async function refused(answer: Promise<Answer>): Promise<AnswerBody> {
  const { status, text, body } = await answer;
  expect(status, text).toBeGreaterThanOrEqual(400);
  expect(body.success).toBe(false);
  return body;
}

/** One user of a node, with a floor that no other user competes for. */
export class E2eClient {
  readonly node: NodeUnderTest;
  readonly userId: string;

  constructor(node: NodeUnderTest, userId = node.newUser()) {
    this.node = node;
    this.userId = userId;
  }

  get floorPath(): string {
    return `/floor/${encodeURIComponent(`u:${encodeURIComponent(this.userId)}`)}`;
  }

  askToCreate(fields: Fields, options?: RequestOptions): Promise<Answer> {
    return this.node.post("/session/create", { userId: this.userId, ...fields }, options);
  }

  /** A session of this agent that has not requested the floor. */
  async create(agentId: string, fields: Fields = {}): Promise<Session> {
    return (await accepted(this.askToCreate({ agentId, ...fields }))).session;
  }

  /** A session of this agent that has the floor. */
  async hold(agentId: string, fields: Fields = {}): Promise<Session> {
    const { session } = await accepted(this.askToCreate({ agentId, activate: true, ...fields }));
    expect(session.state).toBe("active");
    return session;
  }

  say(sessionId: string, content: string, fields: Fields = {}, options?: RequestOptions): Promise<Answer> {
    return this.send({ type: "chat", sessionId, content, ...fields }, options);
  }

  send(message: Fields, options?: RequestOptions): Promise<Answer> {
    return this.node.post("/message", message, options);
  }

  on(sessionId: string, verb: Verb, options?: RequestOptions): Promise<Answer> {
    return this.node.post(`/session/${sessionId}/${verb}`, undefined, options);
  }

  async see(sessionId: string): Promise<Session> {
    return (await accepted(this.node.get(`/session/${sessionId}`))).session;
  }

  messages(sessionId: string): Promise<AnswerBody["messages"]> {
    return this.node.messages(sessionId);
  }

  floor(): Promise<AnswerBody> {
    return accepted(this.node.get(this.floorPath));
  }

  /** A connection of this user, after its first two events. `query`: further parameters, each with its `&`. */
  async connect(query = ""): Promise<{ stream: SseReader; connectionId: string }> {
    const stream = await this.node.stream(`/events?userId=${encodeURIComponent(this.userId)}${query}`);
    const connected = await stream.next();
    expect(connected.type).toBe("connected");
    expect((await stream.next()).type).toBe("agent_list");
    return { stream, connectionId: String(connected.data["connectionId"]) };
  }

  follow(sessionId: string): Promise<SseReader> {
    return this.node.stream(`/session/${sessionId}/events`);
  }

  /** The session's log. */
  async log(sessionId: string): Promise<StreamEvent[]> {
    const { position } = await accepted(this.node.get(`/session/${sessionId}`));
    const stream = await this.follow(sessionId);
    const events = await stream.until(({ id }) => id === position);
    await stream.close();
    return events.filter(({ seq }) => seq !== undefined);
  }

  /** Send a message to a session, and wait for the end of the turn. */
  async talk(sessionId: string, content: string): Promise<StreamEvent[]> {
    const stream = await this.follow(sessionId);
    const { runId } = await accepted(this.say(sessionId, content));
    const events = await stream.until(({ type, data }) => type === "complete" && data["runId"] === runId);
    await stream.close();
    return events;
  }
}

/** `from→to` of each transition. Transitions of sessions other than the first event's have their id. */
export function transitionsOf(events: readonly StreamEvent[]): string[] {
  return events.filter(({ type }) => type === "session_transition").map(({ data }) => `${data["from"]}→${data["to"]}`);
}

export const typesOf = (events: readonly StreamEvent[]): string[] => events.map(({ type }) => type);
