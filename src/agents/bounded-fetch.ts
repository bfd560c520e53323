/** The largest answer that is not streamed, in bytes. */
const MAX_WHOLE_BYTES = 16_777_216;
/** The largest event of a stream, in bytes, because readers keep an event until it is complete. */
const MAX_EVENT_BYTES = 8_388_608;
const LINE_FEED = 10;

/** A server's answer exceeds the limit. It is a TypeError like other failures of `fetch`. */
export class Flood extends Error {
  constructor(what: string) {
    super(`${what} of the answer is too large`);
    this.name = "AI_Flood";
  }
}

/**
 * `fetch` with bounded answers, so that they cannot fill the reader's memory: whole answers by their size, event
 * streams by the size of one line.
 */
export const boundedFetch: typeof globalThis.fetch = async (input, init) => {
  const response = await fetch(input, init);
  if (!response.body) return response;
  const isStream = response.ok && /^text\/event-stream\b/i.test(response.headers.get("content-type") ?? "");
  let bytes = 0;
  const bound = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      const lastBreak = isStream ? chunk.lastIndexOf(LINE_FEED) : -1;
      bytes = lastBreak < 0 ? bytes + chunk.length : chunk.length - lastBreak - 1;
      if (bytes > (isStream ? MAX_EVENT_BYTES : MAX_WHOLE_BYTES)) {
        controller.error(new Flood(isStream ? "an event" : "all"));
        return;
      }
      controller.enqueue(chunk);
    },
  });
  const { status, statusText, headers } = response;
  return new Response(response.body.pipeThrough(bound), { status, statusText, headers });
};
