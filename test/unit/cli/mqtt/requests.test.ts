/** What becomes of a request that expires while it is carried out. */

import { once } from "node:events";
import { expect, test } from "vitest";
import { expiringWrites } from "../../../../src/cli/mqtt/expiring-writes.ts";
import { Misfits } from "../../../../src/cli/mqtt/misfits.ts";
import { MqttFile } from "../../../../src/cli/mqtt/mqtt-file.ts";
import { Requests } from "../../../../src/cli/mqtt/requests.ts";
import { createClient } from "../../../../src/client/interlock-client.ts";
import { parseYamlFile } from "../../../../src/config/yaml-file.ts";

const FILE = parseYamlFile(
  `
broker: { url: "mqtt://broker" }
requests: [{ topic: "in/+user/request", agents: [bell] }]
`,
  MqttFile,
);
if (!FILE.ok) throw new Error(JSON.stringify(FILE.faults));
const { requests: entries } = FILE.file;
const SESSION = { id: "s1", userId: "ann", agentId: "bell", floorId: "u:ann", state: "active" };
const decision = { outcome: "granted", reason: "floor_free", say: "The bell rings." };

const failing = (code: string) => Object.assign(new TypeError("fetch failed"), { cause: { code } });

/** Ask for something that expires after 50 ms, of a node that answers so. */
async function ask(
  verb: string,
  body: object,
  answer: (sent: string, expiry: AbortSignal) => Promise<Response>,
): Promise<{ reply: object; sent: string[]; isExpired: boolean }> {
  const sent: string[] = [];
  let expiry = new AbortController().signal;
  const options = {
    baseUrl: "http://node",
    patienceMs: 10_000,
    fetch: (async (url: string, { method }: RequestInit) => {
      sent.push(`${method} ${new URL(url).pathname}`);
      return answer(sent.at(-1)!, expiry);
    }) as typeof fetch,
  };
  const replied = Promise.withResolvers<string>();
  const requests = new Requests({
    ...{ client: createClient(options), entries, prefix: "interlock", name: "bridge", isTaken: () => false },
    writesUntil: (signal) => {
      expiry = signal;
      return expiringWrites(options, signal);
    },
    publish: (_, payload) => replied.resolve(payload),
    misfits: new Misfits(() => {}),
    say: () => {},
    onFloor: () => {},
  });
  requests.take({
    ...{ topic: `in/ann/${verb}`, payload: Buffer.from(JSON.stringify({ id: "r1", ...body })), isRetained: false },
    ...{ responseTopic: undefined, correlationData: undefined, expiresInS: 0.05 },
  });
  const reply = JSON.parse(await replied.promise);
  return { reply, sent, isExpired: expiry.aborted };
}

const expired = (expiry: AbortSignal) => (expiry.aborted ? undefined : once(expiry, "abort"));
const UNKNOWN = { outcome: "failed", reason: "unreachable", say: expect.stringMatching(/not known\.$/) };
const PATHS = { create: "POST /session/create", message: "POST /message", read: "GET /session/s1" };

test("a request that expires while the node carries it out is answered as the node decides, and its text is said", async () => {
  const { reply, sent, isExpired } = await ask("request", { agent: "bell", text: "Ding." }, async (_, expiry) => {
    await expired(expiry);
    return Response.json({ session: SESSION, decision });
  });
  expect(isExpired).toBe(true);
  expect(reply).toEqual({ id: "r1", sessionId: "s1", ...decision });
  expect(sent).toEqual([PATHS.create, PATHS.message]);
});

test("if its answer is lost, it is not begun again after its expiry, and the reply says that nobody knows", async () => {
  const { reply, sent } = await ask("request", { agent: "bell" }, async (_, expiry) => {
    await expired(expiry);
    throw failing("ECONNRESET");
  });
  expect(reply).toMatchObject(UNKNOWN);
  expect(sent).toEqual([PATHS.create]);
});

const problem =
  (errorCode: string, status: number, more: object = {}) =>
  async () =>
    Response.json({ success: false, errorCode, error: "Later.", retryable: true, ...more }, { status });
const EXPIRED = { outcome: "failed", reason: "expired", say: "It has expired." };

test.each<[what: string, answer: () => Promise<Response>, reply: object]>([
  ["nothing listens at the node's address", () => Promise.reject(failing("ECONNREFUSED")), EXPIRED],
  ["the node has only answered that it is busy", problem("busy", 503), EXPIRED],
  ["the node has only answered that there are too many requests", problem("too_many_requests", 429), EXPIRED],
  ["its node does not know", problem("unavailable", 503), UNKNOWN],
  ["a proxy before it does not know", async () => Response.json("Bad Gateway", { status: 502 }), UNKNOWN],
  ["one of its floors does not know", problem("busy", 503, { zones: [{}] }), UNKNOWN],
])("if %s until then, the reply says whether it has expired, or that nobody knows", async (_, answer, expected) => {
  const { reply } = await ask("request", { agent: "bell" }, answer);
  expect(reply).toMatchObject(expected);
});

test("what would change a session is not begun after the expiry", async () => {
  const { reply, sent } = await ask("end", { sessionId: "s1" }, async (_, expiry) => {
    await expired(expiry);
    return Response.json({ session: SESSION });
  });
  expect(reply).toMatchObject({ outcome: "failed", reason: "expired" });
  expect(sent).toEqual([PATHS.read]);
});
