import { pacedPieces } from "./process/output-pace.ts";

/** The largest answer that is not streamed, in bytes. */
const MAX_WHOLE_BYTES = 16_777_216;
/** The largest event of a stream, in bytes, because readers keep an event until it is complete. */
const MAX_EVENT_BYTES = 8_388_608;
/** The largest message of an MCP server: its client reads one in one iteration of the event loop. */
const MAX_MCP_BYTES = 4_194_304;
/**
 * The maximum number of lines of a stream in which an MCP server sends the answer to one call, and the progress of the
 * call.
 */
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
export const boundedFetch: typeof globalThis.fetch = (input, init) =>
  fetchWithin({ wholeBytes: MAX_WHOLE_BYTES, eventBytes: MAX_EVENT_BYTES }, input, init);

async function fetchWithin(
  { wholeBytes, eventBytes }: { wholeBytes: number; eventBytes: number },
  input: string | URL | Request,
  init?: RequestInit,
): Promise<Response> {
  const response = await fetch(input, init);
  const isPaced = response.ok && isStream(response);
  const maxBytes = isPaced ? eventBytes : wholeBytes;
  let bytes = 0;
  return withBody(response, async (chunk, controller) => {
    const lastBreak = isPaced ? chunk.lastIndexOf(LINE_FEED) : -1;
    bytes = lastBreak < 0 ? bytes + chunk.length : chunk.length - lastBreak - 1;
    if (bytes > maxBytes) throw new OversizedAnswer(isPaced ? "an event of the answer" : "the answer", maxBytes);
    if (!isPaced) return controller.enqueue(chunk);
    for await (const piece of pacedPieces(chunk)) controller.enqueue(piece);
  });
}

/**
 * The same for an MCP server. The number of messages in the stream of an answer is limited too: the client answers each
 * request with a request, so a flood of them would occupy the whole process.
 */
export const boundedMcpFetch: typeof globalThis.fetch = async (input, init) => {
  const response = await fetchWithin({ wholeBytes: MAX_MCP_BYTES, eventBytes: MAX_MCP_BYTES }, input, init);
  if (!isStream(response)) return response;
  let lines = 0;
  return withBody(response, (chunk, controller) => {
    for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, at + 1)) lines += 1;
    if (lines > MAX_LINES) throw new Error(`the answer has more than ${MAX_LINES} lines`);
    controller.enqueue(chunk);
  });
};

const isStream = ({ headers }: Response): boolean => /^text\/event-stream\b/i.test(headers.get("content-type") ?? "");

type Transform = (chunk: Uint8Array, controller: TransformStreamDefaultController<Uint8Array>) => void | Promise<void>;

/** The answer with its body passed through `transform`. What `transform` throws ends the reading. */
function withBody(response: Response, transform: Transform): Response {
  const { body, status, statusText, headers } = response;
  if (!body) return response;
  const passed = body.pipeThrough(new TransformStream<Uint8Array, Uint8Array>({ transform }));
  return new Response(passed, { status, statusText, headers });
}
