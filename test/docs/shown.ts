import { expect } from "vitest";
import { SseReader } from "../support/clients/sse-reader.ts";
import type { Page } from "./page.ts";

/** The address of the node on the pages. */
export const SHOWN_URL = "http://127.0.0.1:3000";

/** Placeholders of a page for values that differ between runs. */
const ANYTHING = "…";

/**
 * The first difference between an answer and what a page shows of it; pages may leave out fields and the ends of lists.
 * Undefined if there is none.
 */
export function difference(shown: unknown, actual: unknown, path = "answer"): string | undefined {
  if (shown === ANYTHING) return actual === undefined ? `${path} is missing` : undefined;
  if (typeof shown !== "object" || shown === null) {
    return shown === actual ? undefined : `${path} is ${JSON.stringify(actual)}, not ${JSON.stringify(shown)}`;
  }
  if (typeof actual !== "object" || actual === null) return `${path} is ${JSON.stringify(actual)}`;
  const isEmpty = Object.keys(shown).length === 0;
  if (isEmpty && Object.keys(actual).length > 0) return `${path} is not empty`;
  for (const [key, value] of Object.entries(shown)) {
    const found = difference(value, (actual as Record<string, unknown>)[key], `${path}.${key}`);
    if (found) return found;
  }
  return undefined;
}

/** A request in a page's `curl` command. */
interface ShownRequest {
  url: string;
  method: string;
  headers: Record<string, string>;
  body: string | undefined;
  /** `-N`: the answer is a stream. */
  isStream: boolean;
}

/** The requests of a shell block; undefined for a block with other commands. */
export function requestsOf(block: string): ShownRequest[] | undefined {
  const lines = block.replaceAll("\\\n", " ").split("\n").filter(Boolean);
  return lines.every((line) => line.startsWith("curl ")) ? lines.map(requestOf) : undefined;
}

function requestOf(line: string): ShownRequest {
  const words = [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain!);
  const request: ShownRequest = { url: "", method: "GET", headers: {}, body: undefined, isStream: false };
  for (let index = 1; index < words.length; index++) {
    const word = words[index]!;
    if (word === "-s") continue;
    if (word === "-N") request.isStream = true;
    else if (word === "-X") request.method = words[++index]!;
    else if (word === "-H") {
      const [name, value] = words[++index]!.split(": ");
      request.headers[name!] = value!;
    } else if (word === "-d") {
      request.body = words[++index]!;
      request.method = "POST";
    } else if (word.startsWith("http://")) request.url = word;
    else throw new Error(`${word} is not understood in: ${line}`);
  }
  return request;
}

/** Send a request of a page to the node at this address. */
export const send = ({ url, method, headers, body }: ShownRequest, to: string): Promise<Response> =>
  fetch(url.replace(SHOWN_URL, to), { method, headers, ...(body !== undefined && { body }) });

/**
 * Send the commands of a page to the node at this address, in their order, and expect what the block after each shows:
 * answers, or the types of a stream's first events. Returns how many were compared; the streams of the doors are not.
 * @param patienceMs for so long a read is repeated, where its answer may still change
 */
export async function expectShown({ blocks }: Page, to: string, patienceMs?: number): Promise<number> {
  let compared = 0;
  for (const [index, { info, text }] of blocks.entries()) {
    const requests = info === "sh" ? (requestsOf(text) ?? []) : [];
    const next = blocks[index + 1];
    if (requests[0]?.isStream) {
      if (requests[0].body !== undefined) continue;
      const stream = await SseReader.open(requests[0].url.replace(SHOWN_URL, to));
      for (const [, type] of next!.text.matchAll(/"type":"(\w+)"/g)) expect((await stream.next()).type).toBe(type);
      await stream.close();
      compared += 1;
    } else if (next?.info === "json") {
      const shown = answersOf(next.text);
      expect(shown.length, text).toBe(requests.length);
      for (const [at, request] of requests.entries()) {
        const ask = async () => difference(shown[at], await (await send(request, to)).json()) ?? "as shown";
        const isRepeated = request.method === "GET" && patienceMs !== undefined;
        if (isRepeated) await expect.poll(ask, { timeout: patienceMs }).toBe("as shown");
        else expect(await ask(), request.url).toBe("as shown");
        compared += 1;
      }
    }
  }
  return compared;
}

/** The answers that a block shows, in order. */
function answersOf(block: string): unknown[] {
  return block
    .split(/^(?=\{)/m)
    .filter(Boolean)
    .map((text) => JSON.parse(text));
}
