import { rename, writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import { dirname, join } from "node:path";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { writeTemporary } from "../../support/clients/callers.ts";
import { printedBy, runHere } from "../../support/clients/command-line.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";
import { metricOf } from "../../support/clients/node-client.ts";
import { ChildServer } from "../../support/nodes/child-server.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { testWith } from "../../support/programs/suites.ts";
import { makeCertificate } from "../../support/servers/certificate.ts";
import { HookReceiver, SECRET, verified, webhooksFile } from "../../support/servers/hook-receiver.ts";
import { listen } from "../../support/servers/listen.ts";
import type { Answer } from "../../support/servers/small-server.ts";

const TYPES = [
  "turn.ended",
  "turn.failed",
  "question.waiting",
  "confirmation.waiting",
  "session.transition",
  "decision",
];

const flood: Answer = (response) => {
  response.writeHead(200);
  response.write(Buffer.alloc(10_485_760));
  response.end();
};

/** A node, and receivers: one that accepts, and others that do not behave. Each hook is told of users of its own. */
const well = await HookReceiver.start();
const flooding = await HookReceiver.start(flood);
const silent = await HookReceiver.start(() => {});
const forbidden = await HookReceiver.start();
const redirecting = await HookReceiver.start((response) => {
  response.writeHead(307, { location: forbidden.url }).end();
});
let isGone = true;
const leaving = await HookReceiver.start((response) => {
  response.writeHead(isGone ? 410 : 204).end();
});
const receivers = [well, flooding, silent, forbidden, redirecting, leaving];
const HOOKS = [
  { name: "well", url: well.url, types: TYPES, users: ["ann", "mixed"] },
  { name: "flooding", url: flooding.url, types: ["turn.ended"], users: ["mixed"] },
  { name: "silent", url: silent.url, types: TYPES, users: ["mixed", "eve"], timeout: "1m" },
  { name: "redirecting", url: redirecting.url, types: TYPES, users: ["mixed"] },
  { name: "leaving", url: leaving.url, types: TYPES, users: ["finn"] },
  // A name that resolves to this machine.
  {
    ...{ name: "private", url: forbidden.url.replace("http://127.0.0.1", "https://localhost"), types: TYPES },
    ...{ users: ["mixed"], private_addresses: false },
  },
];
const path = await writeTemporary("webhooks.yaml", webhooksFile(HOOKS), afterAll);
const node = await NodeUnderTest.start({ settings: { INTERLOCK_WEBHOOKS: path } });
afterAll(async () => {
  await node.stop();
  for (const receiver of receivers) await receiver[Symbol.asyncDispose]();
});

interface View {
  name: string;
  pending: number;
  failures: number;
  reason?: string;
  disabledMs?: number;
}
const views = async () => {
  const { webhooks } = (await accepted(node.get("/webhooks"))) as unknown as { webhooks: View[] };
  return new Map(webhooks.map((view) => [view.name, view]));
};
const drained = (name: string) => expect.poll(async () => (await views()).get(name)?.pending ?? 0).toBe(0);
const TOLD: Record<string, string> = {
  complete: "turn.ended",
  error: "turn.failed",
  user_question_request: "question.waiting",
  session_transition: "session.transition",
  arbitration: "decision",
};
/** What the session's log says that a receiver of all types is told. */
const told = async (user: E2eClient, sessionId: string) =>
  (await user.log(sessionId)).flatMap(({ type, seq }) => (TOLD[type] ? [{ type: TOLD[type], seq }] : []));
const gotten = (receiver: HookReceiver, sessionId: string) =>
  receiver.notices.flatMap(({ type, data }) => (data.sessionId === sessionId ? [{ type, seq: data.seq }] : []));
let zones = 0;
/** Fields of a session on a floor that no try of another test has used. */
function newFloor() {
  zones += 1;
  return { zone: `zone${zones}` };
}
const typesFor = (receiver: HookReceiver, sessionId: string) =>
  receiver.notices.filter(({ data }) => data.sessionId === sessionId).map(({ type }) => type);

test("a receiver is told of a session in its order, each notice signed, with the event as a stream has it", async () => {
  const ann = new E2eClient(node, "ann");
  const { id } = await ann.hold("music", newFloor());
  const events = await ann.talk(id, "hello");
  await ann.talk(id, "refused");
  const expected = await told(ann, id);
  expect(expected.map(({ type }) => type)).toContain("turn.failed");
  await expect.poll(() => gotten(well, id)).toEqual(expected);
  const ended = well.notices.find(({ type, data }) => type === "turn.ended" && data.sessionId === id)!;
  const { data, seq } = events.find(({ type }) => type === "complete")!;
  expect(ended.data).toMatchObject({ sessionId: id, seq, agentId: "music", userId: "ann" });
  expect(ended.data.event).toEqual({ type: "complete", data });
  expect(new Set(well.requests.map((each) => each.id)).size).toBe(well.requests.length);
});

test("questions, confirmations and decisions without a session are told too, and other users are not", async () => {
  const ann = new E2eClient(node, "ann");
  const floor = newFloor();
  const { id, floorId } = await ann.hold("phone", floor);
  const stream = await ann.follow(id);
  await accepted(ann.say(id, "ask"));
  await stream.find("user_question_request");
  const refusal = await ann.askToCreate({ agentId: "music", activate: true, ...floor });
  await expect.poll(() => typesFor(well, id)).toContain("question.waiting");
  const { decision } = refusal.body;
  expect(decision.outcome).toBe("rejected");
  const lone = () => well.notices.find(({ data }) => data.floorId === floorId && data.sessionId === undefined);
  await expect.poll(lone).toMatchObject({ type: "decision", data: { agentId: "music", userId: "ann" } });
  expect(lone()!.data.event.data).toEqual(decision);
  await stream.close();
  const bob = new E2eClient(node, "bob");
  const session = await bob.hold("music", newFloor());
  await bob.talk(session.id, "hello");
  expect(typesFor(well, session.id)).toEqual([]);
});

test("a receiver that hangs, floods, redirects or is private delays no other, and gets nothing elsewhere", async () => {
  const mixed = new E2eClient(node, "mixed");
  const { id } = await mixed.hold("music", newFloor());
  for (let n = 0; n < 3; n++) await mixed.talk(id, "hello");
  await drained("well");
  expect(typesFor(well, id).filter((type) => type === "turn.ended")).toHaveLength(3);
  await drained("flooding");
  expect(typesFor(flooding, id)).toEqual(["turn.ended", "turn.ended", "turn.ended"]);
  await expect.poll(async () => (await views()).get("redirecting")!.reason).toMatch(/status 307, a redirect/);
  await expect.poll(async () => (await views()).get("private")!.reason).toMatch(/localhost is not a public address/);
  // Only the oldest notice of the session was sent to those that do not accept.
  for (const receiver of [silent, redirecting]) expect(typesFor(receiver, id)).toHaveLength(1);
  expect(forbidden.server.heard).toEqual([]);
  const counts = await views();
  expect(counts.get("silent")).toMatchObject({ failures: 0 });
  expect(counts.get("silent")!.pending).toBeGreaterThan(3);
  expect(await metricOf(node, 'interlock_webhook_notices_waiting{webhook="silent"}')).toBe(
    counts.get("silent")!.pending,
  );
  expect(await metricOf(node, 'interlock_webhook_notices_total{webhook="flooding",outcome="accepted"}')).toBe(3);
  expect(await metricOf(node, 'interlock_webhook_notices_total{webhook="private",outcome="failed"}')).toBeGreaterThan(
    0,
  );
});

test("interlock webhooks lists them with what waits, and tests one", async () => {
  const list = await runHere(["webhooks", "--url", node.url]);
  expect(list.code).toBe(1);
  expect(list.stdout).toMatch(/^well +0 +http:\/\/127\.0\.0\.1:\d+\/hook$/m);
  expect(list.stdout).not.toContain("hidden");
  expect(list.stdout).toContain("redirecting accepts no notices: status 307");
  const json = JSON.parse(printedBy(await runHere(["webhooks", "test", "well", "--json", "--url", node.url])));
  expect(json).toMatchObject({ isAccepted: true, status: 204 });
  expect(well.requests.at(-1)).toMatchObject({ type: "test", data: { webhook: "well" } });
  const redirected = await runHere(["webhooks", "test", "redirecting", "--url", node.url]);
  expect([redirected.code, redirected.stdout]).toEqual([
    1,
    "redirecting did not accept the test: status 307, a redirect, which is not\nfollowed\n",
  ]);
  const unknown = await runHere(["webhooks", "test", "wel", "--url", node.url]);
  expect(unknown.code).toBe(1);
  expect(unknown.stderr).toContain("has no webhook of this name; did you mean well?");
  expect((await runHere(["webhooks", "test", "--url", node.url])).code).toBe(2);
});

test("a receiver that answers 410 is sent nothing more until an operator enables its webhook, and then all of it", async () => {
  const finn = new E2eClient(node, "finn");
  const { id } = await finn.hold("music", newFloor());
  await expect.poll(async () => (await views()).get("leaving")!.disabledMs).toBeGreaterThanOrEqual(0);
  await finn.talk(id, "hello");
  const expected = await told(finn, id);
  expect((await views()).get("leaving")).toMatchObject({
    ...{ pending: expected.length, failures: 1, reason: "status 410: the receiver is gone" },
  });
  expect(leaving.requests).toHaveLength(1);
  expect(await metricOf(node, 'interlock_webhook_disabled{webhook="leaving"}')).toBe(1);
  expect(await metricOf(node, 'interlock_webhook_disabled{webhook="well"}')).toBe(0);
  const list = await runHere(["webhooks", "--url", node.url]);
  expect([list.code, list.stdout.replaceAll("\n", " ")]).toEqual([
    1,
    expect.stringMatching(/leaving is disabled: its receiver answered 410, .* interlock webhooks enable leaving /),
  ]);
  isGone = false;
  const enabled = await runHere(["webhooks", "enable", "leaving", "--url", node.url]);
  expect([enabled.code, enabled.stdout]).toEqual([0, "leaving is enabled, and what waits is sent\n"]);
  await drained("leaving");
  expect(gotten(leaving, id)).toEqual(expected);
  expect((await views()).get("leaving")!.disabledMs).toBeUndefined();
  expect(await metricOf(node, 'interlock_webhook_disabled{webhook="leaving"}')).toBe(0);
  const again = await runHere(["webhooks", "enable", "leaving", "--url", node.url]);
  expect(again.stdout).toBe("leaving was not disabled\n");
  const unknown = await runHere(["webhooks", "enable", "leavin", "--url", node.url]);
  expect(unknown.stderr).toContain("did you mean leaving?");
});

test("a forgotten user's notices are gone: nothing of it waits, and nothing comes later", async () => {
  const eve = new E2eClient(node, "eve");
  const { id } = await eve.hold("music", newFloor());
  await eve.talk(id, "hello");
  const others = (await views()).get("silent")!.pending;
  await accepted(node.send("DELETE", "/user/eve"));
  const rest = (await views()).get("silent")!.pending;
  expect(rest).toBeGreaterThan(0);
  expect(rest).toBeLessThan(others);
  // What was on its way before, and that the session was deleted.
  const got = silent.notices.filter(({ data }) => data.sessionId === id);
  expect(got.map(({ data }) => data.event.data["to"] ?? data.event.type)).toEqual(["arbitration", "deleted"]);
});

test("a changed file applies at once: other users, and a second secret; a faulty one changes nothing", async () => {
  const write = async (text: string) => {
    await writeFile(`${path}.new`, text);
    await rename(`${path}.new`, path);
  };
  onTestFinished(() => write(webhooksFile(HOOKS)));
  const newSecret = `whsec_${Buffer.alloc(24, 8).toString("base64")}`;
  await write(webhooksFile([{ ...HOOKS[0], secret: [newSecret, SECRET], users: ["carl"] }]));
  const names = async () => [...(await views()).values()].filter((view) => "url" in view).map(({ name }) => name);
  await expect.poll(names, { timeout: 10_000 }).toEqual(["well"]);
  const carl = new E2eClient(node, "carl");
  const { id } = await carl.hold("music", newFloor());
  await drained("well");
  expect(typesFor(well, id)).not.toEqual([]);
  const last = well.server.heard.at(-1)!;
  expect(verified(last, newSecret).id).toBe(verified(last, SECRET).id);
  // What waits for hooks that are in the file no more is listed, until it is a day old.
  expect((await views()).get("silent")).toMatchObject({ isKnown: false });
});

test("a node does not start with a faulty file, and says each fault", async () => {
  const faulty = await writeTemporary("webhooks.yaml", webhooksFile([{ name: "a", typs: [] }]), onTestFinished);
  const started = NodeUnderTest.start({ settings: { INTERLOCK_WEBHOOKS: faulty } });
  await expect(started).rejects.toThrow(/webhooks\[0\]\.typs: is not a known key; did you mean types\?/);
});

testWith(
  ["openssl"],
  "a receiver with TLS is told if its certificate is trusted, and not otherwise",
  async (openssl) => {
    const folder = dirname(await writeTemporary("webhooks.yaml", "", onTestFinished));
    const file = join(folder, "webhooks.yaml");
    const certificate = await makeCertificate(openssl, folder);
    const heard: string[] = [];
    const server = createServer({ key: certificate.key, cert: certificate.text }, (request, response) => {
      heard.push(String(request.headers["webhook-id"]));
      response.writeHead(204).end();
    });
    const port = await listen(server);
    await writeFile(file, webhooksFile([{ name: "tls", url: `https://localhost:${port}/`, types: TYPES }]));
    const tests = async (settings: Record<string, string>) => {
      const child = await ChildServer.start({
        INTERLOCK_STORE: "sqlite::memory:",
        INTERLOCK_WEBHOOKS: file,
        ...settings,
      });
      return (await child.post("/webhooks/tls/test", {})).body as unknown;
    };
    expect(await tests({})).toMatchObject({ isAccepted: false, reason: "DEPTH_ZERO_SELF_SIGNED_CERT" });
    expect(heard).toEqual([]);
    expect(await tests({ NODE_EXTRA_CA_CERTS: certificate.file })).toMatchObject({ isAccepted: true, status: 204 });
    expect(heard).toHaveLength(1);
  },
);
