/**
 * The order in which every route of /openapi.json checks a request: its bytes, the caller, the request itself; and the
 * receipt of a repeat before the state. New routes are included without being named here.
 */

import { expect, onTestFinished, test } from "vitest";
import { keyOf, startGuarded } from "../../../support/clients/callers.ts";
import { accepted } from "../../../support/clients/e2e-client.ts";
import { OpenApiDocument, type Operation } from "../../../support/documents/openapi-document.ts";
import { type Schema, samplesOf } from "../../../support/documents/openapi-samples.ts";
import { headOf, RawSocket } from "../../../support/networks/raw-socket.ts";

const GOOD = "talk";
const MAX_BODY = 65_536;
const agents = [{ name: GOOD, priority: 20, adapter: { kind: "scripted", replies: [{ say: ["Hello."] }] } }];

const { node, ann, bob, ops } = await startGuarded({
  agents,
  catalog: { default_agent: GOOD },
  settings: { INTERLOCK_MAX_BODY: "64KiB" },
});
const document = OpenApiDocument.parse(JSON.parse((await node.send("GET", "/openapi.json")).text));

interface Route {
  name: string;
  method: string;
  template: string;
  operation: Operation;
  /** The content type of its body. */
  type: string | undefined;
}

const ROUTES: Route[] = Object.entries(document.paths).flatMap(([template, operations]) =>
  Object.entries(operations).map(([verb, operation]) => {
    const method = verb.toUpperCase();
    const [type] = Object.keys(operation!.requestBody?.content ?? {});
    return { name: `${method} ${template}`, method, template, operation: operation!, type };
  }),
);
const named = (routes: Route[]) => routes.map((route) => [route.name, route] as const);
const hasBody = ({ type }: Route) => type !== undefined;
/** The routes that need a credential. */
const GUARDED = ROUTES.filter(({ operation }) => operation.security?.length !== 0);

/** The route's path with the ids of a session and its message, or of its user's floor. */
function pathOf({ template }: Route, sessionId: string, messageId = "m"): string {
  const id = template.startsWith("/floor/") ? `s%3A${sessionId}` : sessionId;
  const names: Record<string, string> = { id, messageId, hash: "0".repeat(64), model: GOOD };
  return template.replace(/\{(\w+)\}/g, (_, name: string) => names[name]!);
}

/** The answer to a request whose body never arrives. */
async function answerToHead(route: Route, path: string, headers: Record<string, string | number>): Promise<number> {
  const socket = await RawSocket.open(node.url);
  onTestFinished(() => socket.destroy());
  await socket.send(headOf(route.method, path, { "Content-Type": route.type ?? "application/json", ...headers }));
  const [, status] = /^HTTP\/1\.1 (\d+) /.exec(await socket.until(/\r\n\r\n/)) ?? [];
  return Number(status);
}

async function statusOf(route: Route, path: string, headers: Record<string, string>, body?: string): Promise<number> {
  const type = { "Content-Type": route.type ?? "application/json" };
  const content = body === undefined ? {} : { body };
  const answer = await fetch(node.url + path, { method: route.method, headers: { ...type, ...headers }, ...content });
  await answer.body?.cancel();
  return answer.status;
}

let sessions = 0;
/** A session of Ann's with one message. */
async function makeSession(): Promise<{ sessionId: string; messageId: string }> {
  sessions += 1;
  const create = { id: `${GOOD}${sessions}`, agentId: GOOD, activate: true };
  const { session } = await accepted(ann.post("/session/create", create));
  const say = { type: "chat", sessionId: session.id, content: "hello" };
  const { messageId } = await accepted(ann.post("/message", say));
  return { sessionId: session.id, messageId };
}

test.each(named(GUARDED))("without valid credentials a request is 401: %s", async (_, route) => {
  const { sessionId, messageId } = await makeSession();
  for (const path of [pathOf(route, sessionId, messageId), `${pathOf(route, "%00")}?limit=x&after=%00`]) {
    for (const headers of [{}, { Authorization: `Bearer ${keyOf("made-up")}` }]) {
      const body = route.type === undefined ? undefined : "{ this is no JSON";
      expect(await statusOf(route, path, headers, body), path).toBe(401);
    }
  }
});

test.each(named(GUARDED.filter(hasBody)))(
  "without valid credentials a request is 401 before its body has arrived: %s",
  async (_, route) => {
    for (const bytes of [2, MAX_BODY * 100_000]) {
      expect(await answerToHead(route, pathOf(route, "any"), { "Content-Length": bytes })).toBe(401);
    }
  },
);

test.each(named(ROUTES.filter(hasBody)))(
  "a body above the limit is refused before it arrives: %s",
  async (_, route) => {
    const headers = { ...ops.headers, "Content-Length": MAX_BODY * 100_000 };
    expect(await answerToHead(route, pathOf(route, "any"), headers)).toBe(413);
  },
);

const about = ROUTES.filter(({ template }) => template.includes("{id}") && !template.startsWith("/agents"));

test.each(named(about))("another owner's session and an unknown one get the same answer: %s", async (_, route) => {
  const { sessionId, messageId } = await makeSession();
  const bodies = route.type === undefined ? [undefined] : ["{}", "[]", "{ this is no JSON", '{"title":7,"flags":[]}'];
  for (const body of bodies) {
    for (const query of ["", "?limit=x&after=%00&before=&lastEventId=%00&format=x"]) {
      const ask = (id: string, message?: string) =>
        statusOf(route, `${pathOf(route, id, message)}${query}`, bob.headers, body);
      const status = await ask(sessionId, messageId);
      expect(status, `${query} ${body}`).toBe(await ask("no-such-session"));
      expect(status, `${query} ${body}`).toBeLessThan(500);
      // A delete of something that does not exist, and the stream of a chat without a run.
      const isNothing = route.method === "DELETE" || route.template.startsWith("/api/chat");
      if (!isNothing) expect(status, `${query} ${body}`).toBeGreaterThanOrEqual(400);
    }
  }
});

const takesKey = ({ operation }: Route) => operation.parameters?.some(({ name }) => name === "Idempotency-Key");
/** Their answers are those of runs, which the doors' own tests repeat. */
const isDoor = ({ operation }: Route) => operation.tags[0] === "doors";
const writes = ROUTES.filter((route) => takesKey(route) && !isDoor(route) && route.type === "application/json");

test.each(named(writes))("a repeat with the same key is answered when its session is gone: %s", async (_, route) => {
  const { sessionId, messageId } = await makeSession();
  const { schema } = route.operation.requestBody!.content["application/json"]!;
  const about = {
    ...ops.headers,
    "Content-Type": "application/json",
    "Idempotency-Key": `every-route-${sessions}`,
  };
  const samples = samplesOf(schema as Schema, document, () => GOOD) as Record<string, unknown>[];
  const body = { ...samples[0] };
  for (const name of ["commandId", "connectionId", "id"]) delete body[name];
  if ("sessionId" in body) body["sessionId"] = sessionId;
  const content = JSON.stringify(body);
  const headers = { ...about, "Content-Length": Buffer.byteLength(content) };
  const ask = () => node.send(route.method, pathOf(route, sessionId, messageId), headers, content);
  const first = await ask();
  await ann.ask("DELETE", `/session/${sessionId}`);
  const again = await ask();
  // A refusal that changed nothing may be decided again.
  if (first.status === 200) expect([again.status, again.text]).toEqual([first.status, first.text]);
  expect(Math.max(first.status, again.status)).toBeLessThan(500);
});
