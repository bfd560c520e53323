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

type Fields = Record<string, unknown>;

/** Copies of a body, each with one more field, in it or in an object of it that has fields; and where that is. */
function* withField(value: unknown, key: string, path = "body"): Generator<{ path: string; changed: unknown }> {
  if (typeof value !== "object" || value === null) return;
  const isEmpty = path !== "body" && Object.keys(value).length === 0;
  if (!Array.isArray(value) && !isEmpty) yield { path: `${path}.${key}`, changed: { ...value, [key]: 1 } };
  for (const [name, inner] of Object.entries(value)) {
    for (const { path: found, changed } of withField(inner, key, `${path}.${name}`)) {
      const copy = (Array.isArray(value) ? [...value] : { ...value }) as Fields;
      yield { path: found, changed: Object.assign(copy, { [name]: changed }) };
    }
  }
}

const bodyOf = ({ operation }: Route) => operation.requestBody!.content["application/json"]!.schema as Schema;
/** Clients choose the names of flags, and former clients send further fields. */
const OPEN = ["PUT /floor/{id}/flags", "PATCH /floor/{id}/flags", "POST /context/compress"];
const strict = ROUTES.filter(
  (route) => route.type === "application/json" && !isDoor(route) && !OPEN.includes(route.name),
);

test("/openapi.json names the routes whose bodies are other protocols' or have free fields", () => {
  for (const route of strict) {
    const { $ref } = bodyOf(route);
    const schema = $ref === undefined ? bodyOf(route) : document.components.schemas[$ref.split("/").at(-1)!];
    for (const each of (schema as Schema).oneOf ?? [schema as Schema]) {
      expect(each.additionalProperties, route.name).toBe(false);
    }
  }
});

test.each(named(strict))(
  "a body with a field that it does not have is refused, and nothing is done: %s",
  async (_, route) => {
    // A session without a turn, which would go on meanwhile.
    sessions += 1;
    const sessionId = `${GOOD}${sessions}`;
    await accepted(ops.post("/session/create", { id: sessionId, agentId: GOOD, activate: true }));
    const seen = async () => {
      const { total } = await accepted(ops.get("/session/list?includeArchived=true"));
      const paths = [`/session/${sessionId}`, `/floor/s%3A${sessionId}/log`, "/agents/definitions"];
      return [total, ...(await Promise.all(paths.map((path) => accepted(ops.get(path)))))];
    };
    const ask = async (body: unknown) => {
      const text = JSON.stringify(body);
      const about = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(text) };
      const answer = await node.send(route.method, pathOf(route, sessionId), { ...ops.headers, ...about }, text);
      return JSON.parse(answer.text) as { errorCode?: string; error: string; issues: { path: string }[] };
    };
    const before = await seen();
    for (const sample of samplesOf(bodyOf(route), document, () => GOOD) as Fields[]) {
      // Of an existing session, so that a body that is not refused has an effect.
      const body = { ...sample, ...("sessionId" in sample && { sessionId }) };
      for (const { path, changed } of withField(body, "colour")) {
        if (path === "body.rollback.colour") continue;
        const { errorCode, error, issues } = await ask(changed);
        expect({ errorCode, error, issues }, JSON.stringify(changed)).toMatchObject({
          errorCode: "bad_request",
          error: expect.stringMatching(/^There is no colour; /),
          issues: [{ path }],
        });
      }
      const name = Object.keys(body).findLast((key) => key.length > 3 && key !== "type");
      if (name === undefined) continue;
      for (const misspelt of [`${name}s`, name.toUpperCase()]) {
        const { [name]: value, ...rest } = body as Fields;
        for (const changed of [
          { ...rest, [misspelt]: value },
          { ...body, [misspelt]: value },
        ]) {
          const { error, issues } = await ask(changed);
          expect(error, JSON.stringify(changed)).toBe(`There is no ${misspelt}; did you mean ${name}?`);
          expect(issues).toMatchObject([{ path: `body.${misspelt}` }]);
        }
      }
    }
    expect(await seen()).toEqual(before);
  },
);
