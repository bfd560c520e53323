import { expect, onTestFinished, test } from "vitest";
import { keysFile, writeTemporary } from "../../../support/clients/callers.ts";
import { type ChildServer, makeInstallation } from "../../../support/nodes/child-server.ts";
import { nowS, signWithSecret, TokenIssuer } from "../../../support/servers/token-issuer.ts";

const KEY = "a-key-that-nobody-must-see-0123456789";
const WRONG = "a-guess-that-nobody-must-see-01234567";
const SECRET = "a-secret-that-nobody-must-see-0123456";

const CATALOG = { agents: [{ name: "chat" }] };

/** A node that logs at the most detailed level. */
const start = async (settings: Record<string, string>) =>
  await (
    await makeInstallation(CATALOG, { INTERLOCK_STORE: "sqlite::memory:", LOG_LEVEL: "trace", ...settings })
  ).start();

/** All that the node printed, after its end. */
async function printedBy(server: ChildServer): Promise<string> {
  server.signal("SIGTERM");
  await server.ended;
  return server.stdout + server.stderr;
}

/** Everything a client does with a credential, right and wrong. @returns the answers, and the tickets it got */
async function useEverywhere(url: string, token: string): Promise<{ answers: string; tickets: string[] }> {
  let answers = "";
  const tickets: string[] = [];
  const ask = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(url + path, init);
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream");
    if (isStream) await response.body!.cancel();
    const text = isStream ? "" : await response.text();
    answers += `${JSON.stringify([...response.headers].filter(([name]) => name !== "set-cookie"))}${text}`;
    return text;
  };
  const bearer = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const post = (path: string, body: object) =>
    ask(path, { method: "POST", headers: bearer, body: JSON.stringify(body) });
  await post("/session/create", { agentId: "chat", title: "a title" });
  await post("/message", { type: "chat", content: "hello" });
  await post("/message", { type: "sing" });
  await post("/cookie", {});
  await ask("/agents", { headers: { Cookie: `interlock_token=${token}` } });
  await ask("/agents", { headers: { Authorization: `Basic ${token}` } });
  await ask("/session/nowhere/events", { headers: bearer });
  for (let index = 0; index < 2; index++) {
    const { ticket } = JSON.parse(await post("/ticket", {})) as { ticket?: string };
    if (ticket !== undefined) tickets.push(ticket);
  }
  for (const ticket of [...tickets, token]) {
    for (const path of ["/events", "/events", "/session/a.b/events", "/floor/%zz/events", "/nothing", "/agents"]) {
      await ask(`${path}?ticket=${ticket}&token=${token}`);
    }
  }
  return { answers: tickets.reduce((text, ticket) => text.replace(`"ticket":"${ticket}"`, ""), answers), tickets };
}

test("a node's log and answers contain no key, ticket or guess, at any level", async () => {
  const keys = await writeTemporary("keys.yaml", keysFile([{ owner: "ann", key: KEY }]), onTestFinished);
  const server = await start({ INTERLOCK_AUTH: `keys:${keys}` });
  const right = await useEverywhere(server.url, KEY);
  const wrong = await useEverywhere(server.url, WRONG);
  const printed = await printedBy(server);
  expect(right.tickets).toHaveLength(2);
  expect(printed).toContain("listening");
  for (const secret of [KEY, WRONG, ...right.tickets]) {
    expect(printed).not.toContain(secret);
    expect(right.answers + wrong.answers).not.toContain(secret);
  }
});

test("a node's log and answers contain no token and no signing key, at any level", async () => {
  const secret = await writeTemporary("secret", SECRET, onTestFinished);
  const server = await start({ INTERLOCK_AUTH: `jwt:${secret}` });
  const tokens = await Promise.all([
    signWithSecret(SECRET, { sub: "ann", email: "ann@example.com" }),
    signWithSecret(SECRET, { sub: "ann", email: "ann@example.com", exp: nowS() - 60 }),
    signWithSecret(WRONG, { sub: "ann", email: "ann@example.com" }),
  ]);
  let answers = "";
  for (const token of tokens) answers += (await useEverywhere(server.url, token)).answers;
  const printed = await printedBy(server);
  for (const text of [printed, answers]) {
    for (const token of tokens) for (const part of token.split(".").slice(1)) expect(text).not.toContain(part);
    expect(text).not.toContain(SECRET);
    expect(text).not.toContain("ann@example.com");
  }
});

test("a failed fetch is logged with its address, and without the token that caused it", async () => {
  await using issuer = await TokenIssuer.start();
  issuer.isDown = true;
  const key = await issuer.makeKey();
  const token = await issuer.sign(key, { sub: "ann" });
  const server = await start({ INTERLOCK_AUTH: `jwt:${issuer.url}` });
  const { answers } = await useEverywhere(server.url, token);
  const printed = await printedBy(server);
  expect(printed).toContain(issuer.url);
  for (const part of token.split(".")) expect(printed + answers).not.toContain(part);
});
