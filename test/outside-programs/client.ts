/**
 * What a user of the generated client would write. It is compiled and run by `test/e2e/contract/http/openapi.test.ts`
 * alone.
 */

import createClient from "openapi-fetch";
import type { components, paths } from "./interlock.d.ts";

type FloorEvent = components["schemas"]["FloorStreamEvent"];
type Problem = components["schemas"]["Problem"];

/**
 * @param name new in each run: the key of the first command, and the place of the floor
 * @returns what it saw, for the test to look at
 */
export async function play(baseUrl: string, token: string, name: string) {
  const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });

  const listed = unwrap(await client.GET("/agents"));
  const agentId = listed.agents.find(({ name }) => name === "Music" || name === "music")?.id ?? listed.defaultAgentId;

  const header = { "Idempotency-Key": name };
  const body = { agentId, userId: "ann", zone: name, activate: true };
  const { session, decision } = unwrap(await client.POST("/session/create", { params: { header }, body }));
  const again = unwrap(await client.POST("/session/create", { params: { header }, body }));
  const reason: components["schemas"]["Decision"]["reason"] | undefined = decision?.reason;

  const params = { path: { id: session.id } };
  // None of these has a body.
  const paused = unwrap(await client.POST("/session/{id}/pause", { params })).session;
  const resumed = unwrap(await client.POST("/session/{id}/resume", { params })).session;
  const { ticket } = unwrap(await client.POST("/ticket"));

  const { floorId } = session;
  const floorParams = { path: { id: floorId } };
  const preview = unwrap(await client.POST("/floor/{id}/what-if", { params: floorParams, body: { agentId } }));
  const refused = await client.PUT("/floor/{id}/flags", { params: floorParams, body: { emergency: true } });
  const problem: Problem | undefined = refused.error;

  const log = unwrap(await client.GET("/floor/{id}/log", { params: { ...floorParams, query: { limit: 100 } } }));
  const transitions = log.events.flatMap((event) => (event.type === "session_transition" ? [event.data.event] : []));
  const lastPosition = log.events[0]?.position;

  // The ticket stands for the token.
  const anonymous = createClient<paths>({ baseUrl });
  const stream = await anonymous.GET("/floor/{id}/events", {
    params: { ...floorParams, query: { ticket } },
    parseAs: "stream",
  });
  if (!stream.data) throw new Error("the stream was refused");
  const streamed: string[] = [];
  for await (const event of eventsOf<FloorEvent>(stream.data)) {
    if (event.type !== "session_transition") continue;
    streamed.push(event.data.event);
    if (event.data.event === "resume") break;
  }

  const ended = unwrap(await client.DELETE("/session/{id}", { params }));
  const missing = await client.GET("/session/{id}", { params });
  return {
    isSame: again.session.id === session.id,
    states: [session.state, paused.state, resumed.state],
    reason,
    preview: preview.decision?.outcome,
    refused: problem?.errorCode,
    transitions,
    isPlaced: lastPosition !== undefined,
    streamed,
    deleted: ended.deleted,
    missing: missing.error?.errorCode,
  };
}

/** What must not compile. Never called. */
export async function mistakes(): Promise<void> {
  const client = createClient<paths>({ baseUrl: "http://127.0.0.1" });
  // @ts-expect-error: there is no such route
  await client.GET("/sessions");
  // @ts-expect-error: a path's parameter is missing
  await client.POST("/session/{id}/pause");
  // @ts-expect-error: this one needs a body
  await client.POST("/message");
  // @ts-expect-error: a message of no known type
  await client.POST("/message", { body: { type: "shout", content: "hello" } });
  const event = JSON.parse("{}") as FloorEvent;
  // @ts-expect-error: floors tell no messages
  if (event.type === "message") return;
  // @ts-expect-error: an arbitration has an outcome, and no state
  if (event.type === "arbitration") void event.data.to;
}

function unwrap<T>({ data, error }: { data?: T; error?: Problem }): T {
  if (data === undefined) throw new Error(`${error?.errorCode}: ${error?.error}`);
  return data;
}

async function* eventsOf<T>(stream: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<T> {
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const frames = (rest + text).split("\n\n");
    rest = frames.pop() ?? "";
    for (const frame of frames) {
      const line = frame.split("\n").find((each) => each.startsWith("data: "));
      if (line !== undefined) yield JSON.parse(line.slice(6)) as T;
    }
  }
}
