import { lookup as lookUp } from "node:dns";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP } from "node:net";
import { z } from "zod";
import { AppError } from "../../protocol/errors.ts";
import { cleanText } from "../../shared/text.ts";
import { createAddressCheck, guardLookup } from "../../system/public-address.ts";
import { textOfPage } from "./page-text.ts";
import { defineTool, fail, succeed, type Tool } from "./tool.ts";

const MAX_REDIRECTS = 5;
const DEFAULT_MAX_BYTES = 524_288;
const TIMEOUT_MS = 20_000;
const READABLE = /^(text\/|application\/([a-z0-9.+-]*\+)?(json|xml)\b|application\/(javascript|yaml|x-yaml)\b)/i;

const Input = z.strictObject({
  url: z.string().min(1).max(4_096).describe("An http or https address."),
});

export interface WebFetchOptions {
  /** Host names, such as `example.com`, `*.example.com:8080`, or `*` for all. Without a port: 80 and 443. */
  readonly hosts: readonly string[];
  /** Private and loopback addresses that are allowed. */
  readonly networks?: readonly string[] | undefined;
  /** The longest page, in bytes; more of it is cut. Default: 524,288. */
  readonly maxBytes?: number | undefined;
  /** Default: 20,000. */
  readonly timeoutMs?: number;
  /** Default: the system's resolver. */
  readonly lookup?: typeof lookUp;
}

/**
 * The tool `web-fetch`: reads a page. The host must be on the list, and its address must be public or listed. Both are
 * checked again for each redirect, and the connection goes to the checked address.
 */
export function createWebFetchTool(options: WebFetchOptions): Tool {
  const { hosts, networks = [], maxBytes = DEFAULT_MAX_BYTES, lookup = lookUp, timeoutMs = TIMEOUT_MS } = options;
  const mayReach = createAddressCheck(networks);
  const mayFetch = createHostCheck(hosts);

  const guardedLookup = guardLookup(mayReach, lookup, (host) => new Refusal(`${host} is not a public address.`));

  function get(url: URL, signal: AbortSignal): Promise<IncomingMessage> {
    const host = url.hostname.replace(/^\[|\]$/g, "");
    if (!mayFetch(url)) throw new Refusal(`${url.host.slice(0, 256)} is not on the list of hosts.`);
    if (isIP(host) !== 0 && !mayReach(host)) throw new Refusal(`${host} is not a public address.`);
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const request = (url.protocol === "https:" ? requestHttps : requestHttp)(url, {
      signal,
      agent: false,
      lookup: guardedLookup,
      maxHeaderSize: 16_384,
      headers: {
        accept: "text/*, application/json;q=0.9, */*;q=0.1",
        "accept-encoding": "identity",
        "user-agent": "interlock",
      },
    });
    request.once("response", (response) => (response.statusCode === 101 ? endSwitched(response) : resolve(response)));
    request.once("error", reject);
    // Node.js gives the socket away: neither a response nor an error follows.
    request.once("upgrade", (_, socket) => endSwitched(socket));
    const endSwitched = (answer: { destroy(): void }) => {
      answer.destroy();
      reject(new Refusal("The page answers with another protocol (status 101)."));
    };
    request.end();
    return promise;
  }

  /** Read the page of an address, or that of the address to which it redirects. */
  async function follow(start: URL, signal: AbortSignal): ReturnType<Tool["run"]> {
    let url = start;
    for (let redirects = 0; ; redirects += 1) {
      const response = await get(url, signal);
      const { statusCode = 0, headers } = response;
      const next = statusCode >= 300 && statusCode < 400 ? headers.location : undefined;
      if (next === undefined) return await read(response, maxBytes);
      response.destroy();
      if (redirects >= MAX_REDIRECTS) return fail(`More than ${MAX_REDIRECTS} redirects.`);
      const target = readUrl(next, url);
      if (!target) return fail("The page redirects to an address that is not http or https.");
      url = target;
    }
  }

  return defineTool({
    name: "web-fetch",
    description: `Read a web page as text. Allowed hosts: ${hosts.join(", ").slice(0, 1_024)}.`,
    input: Input,
    timeoutMs,
    isConfirmed: false,
    async run({ url: text }, { control }) {
      const url = readUrl(text);
      if (!url) return fail("This is not an http or https address.");
      try {
        return await follow(url, control.signal);
      } catch (error) {
        control.signal.throwIfAborted();
        if (error instanceof Refusal) return fail(error.message);
        const { code } = error as NodeJS.ErrnoException;
        if (typeof code !== "string") throw error;
        return fail(`The page cannot be read (${code}).`);
      }
    },
  });
}

/** Not an allowed address. */
class Refusal extends AppError {
  constructor(message: string) {
    super("forbidden", message);
  }
}

function readUrl(text: string, base?: URL): URL | undefined {
  const url = URL.parse(text, base?.href);
  if (!url || (url.protocol !== "http:" && url.protocol !== "https:")) return undefined;
  // User names and passwords in an address are never sent.
  url.username = "";
  url.password = "";
  return url;
}

/** An entry without a port allows ports 80 and 443. */
function createHostCheck(hosts: readonly string[]): (url: URL) => boolean {
  const entries = hosts.map((entry) => {
    const [, name = "", port] = /^(.*?)(?::(\d{1,5}))?$/.exec(entry) ?? [];
    return { name, port };
  });
  const fits = (name: string, host: string) =>
    name === "*" || name === host || (name.startsWith("*.") && host.endsWith(name.slice(1)));
  return ({ hostname, port, protocol }) => {
    const usual = protocol === "https:" ? "443" : "80";
    const effectivePort = port || usual;
    const host = hostname.replace(/\.$/, "");
    return entries.some(
      ({ name, port: allowed }) =>
        fits(name, host) && (allowed === undefined ? effectivePort === usual : effectivePort === allowed),
    );
  };
}

async function read(response: IncomingMessage, maxBytes: number): ReturnType<Tool["run"]> {
  const type = response.headers["content-type"] ?? "text/plain";
  const { statusCode = 0 } = response;
  if (!READABLE.test(type)) {
    response.destroy();
    return fail(`This is ${type.slice(0, 128)}, which is not text (status ${statusCode}).`);
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response) {
    chunks.push((chunk as Buffer).subarray(0, maxBytes - bytes));
    bytes += (chunk as Buffer).length;
    // Leaving the loop closes the connection.
    if (bytes >= maxBytes) break;
  }
  const body = decode(Buffer.concat(chunks), type);
  const text = cleanText(/html/i.test(type) ? textOfPage(body) : body);
  const cut = bytes > maxBytes ? `\n[cut after ${maxBytes} bytes]` : "";
  const content = `${statusCode === 200 ? "" : `Status ${statusCode}\n`}${text}${cut}`;
  return statusCode < 400 ? succeed(content) : fail(content);
}

function decode(body: Buffer, type: string): string {
  const charset = /charset=\s*"?([a-z0-9_-]{1,40})/i.exec(type)?.[1] ?? "utf-8";
  try {
    return new TextDecoder(charset).decode(body);
  } catch {
    return new TextDecoder().decode(body);
  }
}
