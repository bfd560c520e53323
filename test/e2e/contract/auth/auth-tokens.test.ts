import { createHmac, generateKeyPairSync } from "node:crypto";
import { type CryptoKey, exportSPKI, importJWK } from "jose";
import { expect, onTestFinished, test } from "vitest";
import { Caller, writeTemporary } from "../../../support/clients/callers.ts";
import { accepted, refused } from "../../../support/clients/e2e-client.ts";
import type { SseReader } from "../../../support/clients/sse-reader.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";
import { atEndOfSuite } from "../../../support/runner/at-end-of-suite.ts";
import { forge, nowS, signWithSecret, TokenIssuer } from "../../../support/servers/token-issuer.ts";

const SECRET = "0123456789abcdef0123456789abcdef";
const atEnd = atEndOfSuite();

async function startWithSecret(secret: string | Uint8Array = SECRET, settings: Record<string, string> = {}) {
  const path = await writeTemporary("secret", secret, atEnd);
  const node = await NodeUnderTest.start({
    settings: { INTERLOCK_AUTH: `jwt:${path}`, INTERLOCK_RATE_LIMITS: "off", ...settings },
  });
  atEnd(() => node.stop());
  return node;
}

const node = await startWithSecret();
/** The node's answer to a token. */
const judge = (token: string, at = node) => new Caller(at, token).get("/agents");
const expectExpired = async (stream: SseReader) =>
  expect((await stream.end()).at(-1)).toMatchObject({ type: "bye", data: { reason: "token_expired" } });
/** The stream still has the events of its owner. */
const expectLasting = async (stream: SseReader, owner: Caller) => {
  const { session } = await accepted(owner.post("/session/create", { agentId: "chat" }));
  expect((await stream.find("session_created")).sessionId).toBe(session.id);
};
const judgeClaims = async (claims: Record<string, unknown>) => judge(await signWithSecret(SECRET, claims));

test.each<[claims: object, role: string, status: number]>([
  [{ scope: "operator" }, "an operator", 200],
  [{ scope: "read operator write" }, "an operator", 200],
  [{ scp: ["read", "operator"] }, "an operator", 200],
  [{ scp: "operator" }, "an operator", 200],
  [{ scope: "operators" }, "no operator", 403],
  [{ scope: "Operator" }, "no operator", 403],
  [{ scope: { operator: true } }, "no operator", 403],
  [{ scp: [["operator"]] }, "no operator", 403],
  [{ operator: true, role: "operator", roles: ["operator"] }, "no operator", 403],
  [{}, "no operator", 403],
])("a signed token with %j makes its caller %s", async (claims, _, status) => {
  const caller = new Caller(node, await signWithSecret(SECRET, { sub: "somebody", ...claims }));
  expect((await caller.get("/metrics")).status).toBe(status);
});

const [over, unfit, unnamed] = ["has expired", "is not accepted", "'s sub is not a valid name"];
test.each<[string, Record<string, unknown>, string]>([
  ["has expired", { exp: nowS() - 60 }, over],
  ["expired when time began", { exp: 0 }, over],
  ["expired long before that", { exp: -1e308 }, over],
  ["never expires", { exp: null }, unfit],
  ["says so in words", { exp: "tomorrow" }, unfit],
  ["has a text for its expiry", { exp: "1e308" }, unfit],
  ["has a list for its expiry", { exp: [1e308] }, unfit],
  ["is not good yet", { nbf: nowS() + 60 }, unfit],
  ["is never good", { nbf: 1e308 }, unfit],
  ["has a text for its beginning", { nbf: "0" }, unfit],
  ["has no sub", { sub: undefined }, unfit],
  ["has an empty sub", { sub: "" }, unnamed],
  ["has a sub too long to be a name", { sub: "x".repeat(129) }, unnamed],
  ["has control characters in its sub", { sub: "ann\nbob" }, unnamed],
  ["has a number for its sub", { sub: 7 }, unnamed],
])("a signed token that %s is 401", async (_, claims, why) => {
  const { status, body, headers } = await judgeClaims({ sub: "ann", ...claims });
  const error = `The token${why.startsWith("'") ? "" : " "}${why}.`;
  expect([status, body.errorCode, body.error]).toEqual([401, "unauthorized", error]);
  expect(headers["www-authenticate"]).toContain('error="invalid_token"');
});

test("a signed token may come from a clock that is slightly ahead or behind", async () => {
  expect((await judgeClaims({ sub: "ann", exp: nowS() - 5 })).status).toBe(200);
  expect((await judgeClaims({ sub: "ann", nbf: nowS() + 5 })).status).toBe(200);
});

test.each([1e308, 8.64e12, 4_102_444_800.1234])("a token, its tickets and cookies may expire at %d", async (exp) => {
  const ann = new Caller(node, await signWithSecret(SECRET, { sub: "ann", exp }));
  await accepted(ann.get("/agents"));
  const { ticket, expiresAt } = await ann.ticket();
  expect(expiresAt).toEqual(expect.any(Number));
  expect((await (await node.stream(`/events?ticket=${ticket}`)).next()).type).toBe("connected");
  expect(await accepted(ann.post("/cookie"))).toMatchObject({ expiresAt: expect.any(Number) });
});

test("a token of another algorithm, without a signature, or with another key's signature, is 401", async () => {
  const claims = { sub: "ann", exp: nowS() + 60 };
  const long = SECRET + SECRET;
  const another = await startWithSecret(long);
  const tokens = [
    await signWithSecret(long, claims, "HS512"),
    await signWithSecret(long, claims, "HS384"),
    await signWithSecret(SECRET, claims),
    forge({ alg: "none" }, claims),
    forge({ alg: "None" }, claims, "eA"),
    forge({}, claims),
    forge({ alg: "HS256" }, claims),
    forge({ alg: "HS256", crit: ["b64"], b64: false }, claims, "eA"),
    (await signWithSecret(long, claims)).replace(/\.[^.]+$/, ".AAAA"),
    "a.b.c",
    "token",
  ];
  for (const token of tokens) {
    const { status, body } = await judge(token, another);
    expect([status, body.errorCode, body.error], token).toEqual([401, "unauthorized", "The token is not accepted."]);
  }
  expect((await judge(await signWithSecret(long, claims), another)).status).toBe(200);
});

const bytes = Uint8Array.from({ length: 64 }, (_, index) => index * 4);
test.each<[what: string, file: string | Uint8Array, secret: string | Uint8Array]>([
  ["the same with the end of a line, which editors add", `${SECRET}\r\n`, SECRET],
  ["any bytes", bytes, bytes],
])("a secret may be %s", async (_, file, secret) => {
  const other = await startWithSecret(file);
  expect((await judge(await signWithSecret(secret, { sub: "ann" }), other)).status).toBe(200);
});

const UNFIT = "the secret that tokens are signed with cannot be used: FILE: it";
test.each<[what: string, kind: string, content: string | undefined, error: string]>([
  ["a short secret", "jwt", `${"x".repeat(31)}\n`, `${UNFIT} has 31 bytes; HS256 needs at least 32`],
  ["a long secret", "jwt", "x".repeat(4_097), "it is larger than 4096 bytes"],
  ["a missing secret", "jwt", undefined, "FILE: there is no such file"],
  ["a missing file of keys", "keys", undefined, "FILE:1:1 there is no such file"],
])("%s is refused in a sentence when the node starts", async (_, kind, content, error) => {
  const file = content === undefined ? "/nowhere/file" : await writeTemporary("file", content, onTestFinished);
  const starting = NodeUnderTest.start({ settings: { INTERLOCK_AUTH: `${kind}:${file}` } });
  await expect(starting).rejects.toThrow(error.replace("FILE", file));
});
test("a token's issuer and audience are checked if they are configured", async () => {
  const configured = { INTERLOCK_ISSUER: "https://id.example", INTERLOCK_AUDIENCE: "interlock" };
  const strict = await startWithSecret(SECRET, configured);
  const right = { sub: "ann", iss: "https://id.example", aud: "interlock" };
  for (const [claims, status] of [
    [{}, 200],
    [{ aud: ["other", "interlock"] }, 200],
    [{ aud: "other" }, 401],
    [{ aud: undefined }, 401],
    [{ iss: "https://evil.example" }, 401],
    [{ iss: undefined }, 401],
  ] as const) {
    const token = await signWithSecret(SECRET, { ...right, ...claims } as never);
    expect((await judge(token, strict)).status, JSON.stringify(claims)).toBe(status);
  }
});

const start = async (issuer: TokenIssuer) => {
  const other = await NodeUnderTest.start({
    settings: { INTERLOCK_AUTH: `jwt:${issuer.url}`, INTERLOCK_RATE_LIMITS: "off" },
  });
  onTestFinished(() => other.stop());
  return other;
};

test("a published key may be one of ES256, RS256, PS256 and EdDSA", async () => {
  await using issuer = await TokenIssuer.start();
  const keys = [await issuer.makeKey("ES256"), await issuer.makeKey("RS256"), await issuer.makeKey("PS256")];
  keys.push(await issuer.makeKey("EdDSA"));
  issuer.publish(...keys);
  const other = await start(issuer);
  for (const key of keys) {
    const ann = new Caller(other, await issuer.sign(key, { sub: "ann" }));
    expect((await accepted(ann.post("/session/create"))).session.ownerId, key.alg).toBe("ann");
  }
});

test.each<[how: string, kids: [string?, string?], isKnown: boolean]>([
  ["withdrawn", ["old", "next"], true],
  ["withdrawn alone of keys without an id", [], true],
  ["replaced under its own id", ["signing", "signing"], false],
  ["replaced, where keys have no id", [], false],
])("a token is refused, and its streams and tickets end, once its key is %s", async (_, kids, isKnown) => {
  await using issuer = await TokenIssuer.start();
  const [old, next] = [await issuer.makeKeyNamed(kids[0]), await issuer.makeKeyNamed(kids[1])];
  const [newest, unpublished] = [await issuer.makeKey(), await issuer.makeKey()];
  const strange = [{ kty: "future", x: "eA" }, { kty: "RSA", n: "", e: "" }, { kty: "EC" }];
  issuer.published = [...strange, old.publicJwk, ...(isKnown ? [next.publicJwk] : [])] as never;
  const other = await start(issuer);
  const ann = new Caller(other, await issuer.sign(old, { sub: "ann" }));
  const bob = new Caller(other, await issuer.sign(next, { sub: "bob" }));
  const { session } = await accepted(ann.post("/session/create", { agentId: "chat" }));
  const paths = ["/events", "/floors/events", `/session/${session.id}/events`];
  const streams = await Promise.all(paths.map((path) => ann.stream(path)));
  streams.push(await other.stream(`/events?ticket=${(await ann.ticket()).ticket}`));
  const { ticket: kept } = await ann.ticket();
  const lasting = isKnown ? await bob.stream("/events") : undefined;
  if (isKnown) issuer.publish(next, newest);
  else issuer.publish(next);
  // A token that no known key verifies makes the node read the set.
  expect((await judge(await issuer.sign(isKnown ? newest : next, { sub: "bob" }), other)).status).toBe(200);
  for (const stream of streams) await expectExpired(stream);
  expect((await refused(ann.get("/agents"))).errorCode).toBe("unauthorized");
  expect((await other.stream(`/events?ticket=${kept}`)).status).toBe(401);
  await expectLasting(lasting ?? (await bob.stream("/events")), bob);
  expect((await judge(await issuer.sign(unpublished, { sub: "eve" }), other)).status).toBe(401);
});

test("a token is accepted although another published key without an id is too short to be used", async () => {
  await using issuer = await TokenIssuer.start();
  const [short, key] = [await issuer.makeKeyNamed(undefined, "RS256"), await issuer.makeKeyNamed(undefined, "RS256")];
  const { publicKey } = generateKeyPairSync("rsa", { modulusLength: 1_024 });
  issuer.publish({ ...short, publicJwk: { ...short.publicJwk, n: publicKey.export({ format: "jwk" }).n! } }, key);
  const other = await start(issuer);
  expect((await judge(await issuer.sign(key, { sub: "ann" }), other)).status).toBe(200);
  expect((await judge(await issuer.sign(short, { sub: "ann" }), other)).status).toBe(401);
});

test("a token's streams go on when its key is published in another form", async () => {
  await using issuer = await TokenIssuer.start();
  const [key, next] = [await issuer.makeKey("RS256"), await issuer.makeKey()];
  issuer.publish(key);
  const other = await start(issuer);
  const ann = new Caller(other, await issuer.sign(key, { sub: "ann" }));
  const stream = await ann.stream("/events");
  const { n, alg: _, ...rest } = key.publicJwk;
  const padded = Buffer.concat([Buffer.alloc(1), Buffer.from(n!, "base64url")]).toString("base64url");
  issuer.published = [{ ...rest, n: padded, x5t: "eA" }, next.publicJwk];
  expect((await judge(await issuer.sign(next, { sub: "bob" }), other)).status).toBe(200);
  await expectLasting(stream, ann);
  expect((await judge(await issuer.sign(key, { sub: "ann", jti: "2" }), other)).status).toBe(200);
});

test("a token cannot be forged with the published key: the public key is not a secret", async () => {
  await using issuer = await TokenIssuer.start();
  const key = await issuer.makeKey("RS256");
  const secretJwk = { kty: "oct", k: Buffer.from(SECRET).toString("base64url"), kid: "shared" };
  issuer.published = [key.publicJwk, secretJwk];
  const other = await start(issuer);
  const pem = await exportSPKI((await importJWK(key.publicJwk, "RS256")) as CryptoKey);
  const claims = { sub: "ann", scope: "operator", exp: nowS() + 60 };
  const hmac = (secret: string, kid: string) => {
    const unsigned = forge({ alg: "HS256", kid }, claims).slice(0, -1);
    return `${unsigned}.${createHmac("sha256", secret).update(unsigned).digest("base64url")}`;
  };
  const forged = [
    hmac(pem, key.kid),
    hmac(pem.trim(), key.kid),
    hmac(JSON.stringify(key.publicJwk), key.kid),
    hmac(key.publicJwk.n!, key.kid),
    // Not even if a shared secret is among the published keys.
    hmac(SECRET, "shared"),
    forge({ alg: "none", kid: key.kid }, claims),
    forge({ alg: "RS256", kid: key.kid, jwk: key.publicJwk }, claims, "eA"),
  ];
  for (const token of forged) {
    expect((await judge(token, other)).body.error, token).toBe("The token is not accepted.");
  }
  expect((await judge(await issuer.sign(key, claims), other)).status).toBe(200);
});

test("a stream ends with its token, reports it, and continues with a new token", async () => {
  const ann = new Caller(node, await signWithSecret(SECRET, { sub: "ann" }));
  const { session } = await accepted(ann.post("/session/create", { agentId: "chat", title: "before" }));
  // It expires within a second or two: clocks may differ by ten seconds.
  const brief = new Caller(node, await signWithSecret(SECRET, { sub: "ann", exp: nowS() - 8 }));
  const paths = ["/events", `/events?sessionId=${session.id}`, `/session/${session.id}/events`];
  paths.push(`/floor/${encodeURIComponent(session.floorId)}/events`);
  const streams = await Promise.all(paths.map((path) => brief.stream(path)));
  streams.push(await node.stream(`/session/${session.id}/events?ticket=${(await brief.ticket()).ticket}`));
  const lasting = await ann.stream(`/session/${session.id}/events`);
  for (const stream of streams) await expectExpired(stream);
  expect((await refused(brief.get("/agents"))).error).toBe("The token has expired.");
  await accepted(ann.ask("PATCH", `/session/${session.id}`, { title: "after" }));
  for (const stream of [streams[1]!, streams[2]!, streams[4]!]) {
    const path = paths[streams.indexOf(stream)] ?? paths[2]!;
    const again = await ann.stream(path, { "Last-Event-ID": stream.lastEventId! });
    const event = await again.find("session_updated");
    expect(event.data).toEqual({ title: "after" });
  }
  expect((await lasting.find("session_updated")).data).toEqual({ title: "after" });
});

test("a connection that an operator bound shows its owner no other owner's session once the role is gone", async () => {
  const bob = new Caller(node, await signWithSecret(SECRET, { sub: "bob" }));
  const { session } = await accepted(bob.post("/session/create", { agentId: "music", title: "bob's" }));
  const operator = new Caller(node, await signWithSecret(SECRET, { sub: "ops", scope: "operator" }));
  const stream = await operator.stream(`/events?sessionId=${session.id}`);
  await stream.find("agent_list");
  expect((await stream.find("agent_list")).data["currentAgentId"]).toBe("music");
  await accepted(bob.ask("PATCH", `/session/${session.id}`, { title: "seen" }));
  await stream.find("session_updated");
  const position = stream.lastEventId!;
  await stream.close();
  await accepted(bob.ask("PATCH", `/session/${session.id}`, { title: "not seen" }));
  const lesser = new Caller(node, await signWithSecret(SECRET, { sub: "ops" }));
  const resumed = await lesser.stream("/events", { "Last-Event-ID": position });
  expect((await resumed.find("agent_list")).data["currentAgentId"]).toBe("general");
  const own = await accepted(lesser.post("/session/create", { agentId: "chat", connectionId: position.split(".")[1] }));
  const events = await resumed.until(({ sessionId }) => sessionId === own.session.id);
  expect(events.map(({ sessionId }) => sessionId).filter((id) => id === session.id)).toEqual([]);
});
