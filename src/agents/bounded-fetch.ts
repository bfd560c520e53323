import { inTurns } from "./process/output-pace.ts";

/** The largest answer that is not streamed, in bytes. */
const MAX_WHOLE_BYTES = 16_777_216;
/** The largest event of a stream, in bytes, because readers keep an event until it is complete. */
const MAX_EVENT_BYTES = 8_388_608;
/** The most lines of a stream in which an MCP server sends the answer to one call, and the progress of the call. */
const MAX_LINES = 16_384;
const LINE_FEED = 10;

/** A server's answer exceeds the limit. */
export class OversizedAnswer extends Error {
  constructor(what: string, maxBytes: number) {
    super(`${what} is larger than ${maxBytes} bytes`);
    this.name = "OversizedAnswer";
  }
}

/**
 * `fetch` with bounded answers, so that they cannot fill the reader's memory: whole answers by their size, event
 * streams by the size of one line. Reading the body of a larger answer rejects with `OversizedAnswer`.
 */
export const boundedFetch: typeof globalThis.fetch = async (input, init) => {
  const response = await fetch(input, init);
  if (!response.body) return response;
  const isStream = response.ok && /^text\/event-stream\b/i.test(response.headers.get("content-type") ?? "");
  const maxBytes = isStream ? MAX_EVENT_BYTES : MAX_WHOLE_BYTES;
  let bytes = 0;
  const bound = new TransformStream<Uint8Array, Uint8Array>({
    async transform(chunk, controller) {
      const lastBreak = isStream ? chunk.lastIndexOf(LINE_FEED) : -1;
      bytes = lastBreak < 0 ? bytes + chunk.length : chunk.length - lastBreak - 1;
      if (bytes > maxBytes) {
        controller.error(new OversizedAnswer(isStream ? "an event of the answer" : "the answer", maxBytes));
        return;
      }
      if (!isStream) return controller.enqueue(chunk);
      for await (const piece of inTurns(chunk)) controller.enqueue(piece);
    },
  });
  const { status, statusText, headers } = response;
  return new Response(response.body.pipeThrough(bound), { status, statusText, headers });
};

/**
 * The same for an MCP server. It gets no stream for requests of its own, and in the stream of an answer it sends only so
 * many messages: the client answers each request with a request, so a flood of them would occupy the whole process.
 */
export const boundedMcpFetch: typeof globalThis.fetch = async (input, init) => {
  if (init?.method === "GET") return new Response(null, { status: 405 });
  const response = await boundedFetch(input, init);
  const isStream = /^text\/event-stream\b/i.test(response.headers.get("content-type") ?? "");
  if (!response.body || !isStream) return response;
  let lines = 0;
  const bound = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, at + 1)) lines += 1;
      if (lines > MAX_LINES) controller.error(new Error(`the answer has more than ${MAX_LINES} lines`));
      else controller.enqueue(chunk);
    },
  });
  const { status, statusText, headers } = response;
  return new Response(response.body.pipeThrough(bound), { status, statusText, headers });
};
