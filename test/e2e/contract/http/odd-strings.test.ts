import { describe, expect, onTestFinished, test } from "vitest";
import { accepted } from "../../../support/clients/e2e-client.ts";
import { OpenApiDocument } from "../../../support/documents/openapi-document.ts";
import { type Schema, samplesOf } from "../../../support/documents/openapi-samples.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";
import { describeWith } from "../../../support/programs/suites.ts";
import { POSTGRES } from "../../../support/servers/postgres-server.ts";
import { serverOf } from "../../../support/servers/shared-server.ts";

/** A valid id, name, text and base64: this test's agent, user and session have this name. */
const GOOD = "talk";
const ODD = ["ta\0lk", "ta\ude97lk"];
/** Only NUL can be written in a URL; the bytes of a lone surrogate are not UTF-8. */
const ODD_ENCODED = ["ta%00lk", "ta%ED%BA%97lk"];

/** Every value of the schema with an odd string at one place, and valid ones elsewhere. */
function* oddBodies(schema: Schema, document: OpenApiDocument): Generator<unknown> {
  let places = 0;
  const alternatives = samplesOf(schema, document, () => {
    places += 1;
    return GOOD;
  });
  for (let place = 0; place < places; place += 1) {
    for (const odd of ODD) {
      let at = 0;
      // Only the alternatives that contain the place differ from the valid values.
      const bodies = samplesOf(schema, document, () => (at++ === place ? odd : GOOD));
      for (const [index, body] of bodies.entries()) {
        if (JSON.stringify(body) !== JSON.stringify(alternatives[index])) yield body;
      }
    }
  }
}

interface OddRequest {
  method: string;
  path: string;
  body?: unknown;
}

function* oddRequests(document: OpenApiDocument): Generator<OddRequest> {
  for (const [template, operations] of Object.entries(document.paths)) {
    for (const [verb, operation] of Object.entries(operations)) {
      const method = verb.toUpperCase();
      const good = template.startsWith("/floor/") ? `u%3A${GOOD}` : GOOD;
      const fill = (odd?: { name: string; text: string }) =>
        template.replace(/\{(\w+)\}/g, (_, name) =>
          odd && name === odd.name ? odd.text : name === "id" ? good : GOOD,
        );
      const content = operation!.requestBody?.content["application/json"];
      for (const { name, in: where } of operation!.parameters ?? []) {
        for (const text of ODD_ENCODED) {
          const path = where === "path" ? fill({ name, text }) : `${fill()}?${name}=${text}`;
          const [body] = content ? samplesOf(content.schema as Schema, document, () => GOOD) : [];
          yield { method, path, body };
        }
      }
      if (content)
        for (const body of oddBodies(content.schema as Schema, document)) yield { method, path: fill(), body };
    }
  }
}

/** The same request about an existing session. */
function inSession({ path, body, ...rest }: OddRequest, sessionId: string): OddRequest {
  const isNamed = (body as { sessionId?: string } | undefined)?.sessionId === GOOD;
  return {
    ...rest,
    path: path.replace(/^\/session\/talk(?![^/?])/, `/session/${sessionId}`),
    body: isNamed ? { ...(body as object), sessionId } : body,
  };
}

/** Only the status, because the body of a stream is not read. */
async function statusOf(node: NodeUnderTest, { method, path, body }: OddRequest): Promise<number> {
  const answer = await fetch(node.url + path, {
    method,
    ...(body !== undefined && { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }),
  });
  await answer.body?.cancel();
  return answer.status;
}

function suite(settingsOf: () => Promise<Record<string, string>> = async () => ({})): void {
  test("every route of /openapi.json cleans or refuses odd strings in every field, and never fails with internal", async () => {
    const node = await NodeUnderTest.start({ agents, catalog, settings: await settingsOf() }, onTestFinished);
    const document = OpenApiDocument.parse(JSON.parse((await node.send("GET", "/openapi.json")).text));
    const failed: unknown[] = [];
    const statuses = new Map<number, number>();
    let sessions = 0;
    let hasChanged = true;
    for (const request of oddRequests(document)) {
      // Each request gets a session that no earlier request has changed, archived or deleted.
      if (hasChanged) {
        if (sessions > 0) await node.delete(`/session/${GOOD}${sessions}`);
        sessions += 1;
        const create = { id: `${GOOD}${sessions}`, agentId: GOOD, userId: GOOD, activate: true };
        await accepted(node.post("/session/create", create));
        await accepted(node.post("/message", { type: "chat", id: GOOD, sessionId: create.id, content: GOOD }));
      }
      const status = await statusOf(node, inSession(request, `${GOOD}${sessions}`));
      hasChanged = status === 200 && request.method !== "GET";
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (status >= 500) failed.push({ ...request, status });
    }
    expect(failed).toEqual([]);
    // Some strings are cleaned, some are refused, some name nothing: the test reaches more than the schemas.
    expect([...statuses.keys()]).toEqual(expect.arrayContaining([200, 400, 404]));
    expect(statuses.get(200)).toBeGreaterThan(10);
  }, 180_000);
}

const agents = [{ name: GOOD, priority: 20, adapter: { kind: "scripted", replies: [{ say: ["Hello."] }] } }];
const catalog = { default_agent: GOOD };

describe("NUL or half a character on SQLite", () => suite());

describeWith([POSTGRES], "NUL or half a character on PostgreSQL", (start) => {
  const server = serverOf(start);
  suite(async () => ({ INTERLOCK_STORE: (await server().makeDatabase()).url }));
});
