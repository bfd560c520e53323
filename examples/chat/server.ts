import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { extname, join, normalize } from "node:path";
import { jwtVerify, SignJWT } from "jose";

export interface ChatServerOptions {
  /** The secret that the node verifies tokens with: `INTERLOCK_AUTH=jwt:<file>`. */
  nodeSecret: Uint8Array;
  /** The node's address, as the browser reaches it. */
  nodeUrl: () => string;
  /** The folder of the built page. */
  pageFolder: string;
}

/** Your table of users stands here, with salted hashes of its passwords. */
const USERS = new Map([
  ["ann", "tulip"],
  ["bob", "canal"],
]);
const COOKIE = "chat_user";
/** A page gets a new token before the last one ends. */
const TOKEN_SECONDS = 300;
const SIGNED_IN_SECONDS = 86_400;
const MAX_BODY = 4_096;
const TYPES: Record<string, string> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
};

/**
 * The product's backend. It signs users in with a cookie of its own, which the page's scripts cannot read, and gives
 * the page short tokens with which it talks to the node itself. The node knows nothing of passwords.
 */
export function createChatServer({ nodeSecret, nodeUrl, pageFolder }: ChatServerOptions): Server {
  // Of this process: after a restart users sign in again.
  const cookieSecret = randomBytes(32);

  async function signIn(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { user, password } = await readJson(request);
    const expected = typeof user === "string" ? USERS.get(user) : undefined;
    if (
      typeof user !== "string" ||
      typeof password !== "string" ||
      expected === undefined ||
      !isSame(password, expected)
    )
      return answer(response, 401, { error: "There is no such user, or the password is another one." });
    const value = await tokenFor(user, cookieSecret, SIGNED_IN_SECONDS);
    setCookie(response, `${value}; Max-Age=${SIGNED_IN_SECONDS}`);
    answer(response, 200, {});
  }

  /** The user's token for the node. Its `sub` owns all that the page makes there, and is the only user it may name. */
  async function giveToken(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const user = await userOf(request, cookieSecret);
    if (user === undefined) return void response.writeHead(204).end();
    const token = await tokenFor(user, nodeSecret, TOKEN_SECONDS);
    answer(response, 200, { user, token, validMs: TOKEN_SECONDS * 1_000, node: nodeUrl() });
  }

  function signOut(response: ServerResponse): void {
    setCookie(response, "; Max-Age=0");
    answer(response, 200, {});
  }

  async function servePage(path: string, response: ServerResponse): Promise<void> {
    const file = join(pageFolder, normalize(path === "/" ? "/index.html" : path));
    const type = TYPES[extname(file)];
    const content = type && (await readFile(file).catch(() => undefined));
    if (!content) return answer(response, 404, { error: "There is no such page." });
    const policy = `default-src 'self'; connect-src 'self' ${nodeUrl()}`;
    response
      .writeHead(200, { "Content-Type": `${type}; charset=utf-8`, "Content-Security-Policy": policy })
      .end(content);
  }

  return createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://chat");
    const route = `${request.method} ${pathname}`;
    const done =
      route === "POST /sign-in"
        ? signIn(request, response)
        : route === "POST /sign-out"
          ? Promise.resolve(signOut(response))
          : route === "GET /token"
            ? giveToken(request, response)
            : servePage(request.method === "GET" ? pathname : "", response);
    done.catch(() => answer(response, 400, { error: "The request is malformed." }));
  });
}

const tokenFor = (user: string, secret: Uint8Array, seconds: number): Promise<string> =>
  new SignJWT().setProtectedHeader({ alg: "HS256" }).setSubject(user).setExpirationTime(`${seconds} s`).sign(secret);

async function userOf({ headers }: IncomingMessage, secret: Uint8Array): Promise<string | undefined> {
  const [, value] = new RegExp(`(?:^|; )${COOKIE}=([^;]+)`).exec(headers.cookie ?? "") ?? [];
  const verified = value && (await jwtVerify(value, secret).catch(() => undefined));
  return verified ? verified.payload.sub : undefined;
}

function setCookie(response: ServerResponse, value: string): void {
  // Behind HTTPS add `Secure`.
  response.setHeader("Set-Cookie", `${COOKIE}=${value}; HttpOnly; SameSite=Strict; Path=/`);
}

async function readJson(request: IncomingMessage): Promise<Record<string, unknown>> {
  // A form of another site cannot send this type without asking first.
  if (request.headers["content-type"] !== "application/json") throw new Error("not JSON");
  let body = "";
  for await (const chunk of request.setEncoding("utf8")) {
    body += chunk;
    if (body.length > MAX_BODY) throw new Error("too long");
  }
  return JSON.parse(body);
}

const digestOf = (text: string) => createHash("sha256").update(text).digest();
const isSame = (one: string, other: string): boolean => timingSafeEqual(digestOf(one), digestOf(other));

function answer(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "Content-Type": "application/json", "Cache-Control": "no-store" });
  response.end(JSON.stringify(body));
}
