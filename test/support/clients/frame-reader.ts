import { z } from "zod";
import { LIVE_EVENTS, LOGGED_EVENTS } from "../../../src/protocol/event.ts";
import { toStrictSchema } from "../documents/published-schema.ts";

/** The data of all event types together; a test reads the fields of its type. */
export interface EventData {
  [name: string]: unknown;
  id: string;
  sessionId: string;
  connectionId: string;
  currentAgentId: string;
  messageId: string;
  runId: string;
  attempt: number;
  kind: string;
  offset: number;
  text: string;
  content: string;
  status: string;
  streaming: boolean;
  title: string;
  from: string | number;
  to: string;
  reason: string;
  reconnectInMs: number;
  errorCode: string;
  cancelled: boolean;
}

/** An event as a client receives it: the content of `data:`, and the `id` before it. */
export interface StreamEvent {
  readonly id?: string;
  readonly type: string;
  readonly data: EventData;
  readonly timestamp: string;
  readonly sessionId?: string;
  readonly seq?: number;
  readonly requestId?: string;
}

/** Everything a stream may send. */
export type StreamFrame =
  | { readonly kind: "retry"; readonly ms: number }
  | { readonly kind: "place"; readonly id: string }
  | { readonly kind: "comment" }
  | { readonly kind: "event"; readonly event: StreamEvent };

const Envelope = z.strictObject({
  type: z.string(),
  data: z.record(z.string(), z.unknown()),
  timestamp: z.iso.datetime({ precision: 3 }),
  sessionId: z.string().optional(),
  seq: z.int().positive().optional(),
  requestId: z.string().optional(),
});
const SCHEMAS = new Map(
  Object.entries({ ...LOGGED_EVENTS, ...LIVE_EVENTS }).map(([type, schema]) => [type, toStrictSchema(schema)]),
);
const ID = /^[A-Za-z0-9._-]{1,127}$/;

/**
 * Reads the bytes of one stream strictly by the contract: `retry` first, LF only, only `id:` and `data:` lines, one
 * `data:` line per frame, known types with exactly their fields, an `id` on logged events, `reset` and `agent_list`.
 */
export class FrameReader {
  /** The text of a frame that has not ended. */
  rest = "";
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  #isOpened = false;

  /**
   * The frames that end in these bytes.
   * @throws Error at the first deviation
   */
  *read(bytes: Uint8Array): Generator<StreamFrame> {
    this.rest += this.#decoder.decode(bytes, { stream: true });
    for (;;) {
      // Lines that belong to no frame, or to the next one.
      const line = /^(?::|retry: (\d+))\n/.exec(this.rest);
      const end = line ? line[0].length : this.rest.indexOf("\n\n") + 2;
      if (end < 2) return;
      const frame = line ? readLine(line[1]) : readFrame(this.rest.slice(0, end - 2));
      this.rest = this.rest.slice(end);
      this.#isOpened ||= frame.kind === "retry";
      if (!this.#isOpened) throw new Error(`a stream opens with retry, not with ${frame.kind}`);
      yield frame;
    }
  }
}

const readLine = (ms: string | undefined): StreamFrame =>
  ms === undefined ? { kind: "comment" } : { kind: "retry", ms: Number(ms) };

function readFrame(text: string): StreamFrame {
  const fault = (what: string) => new Error(`${what}: ${JSON.stringify(text)}`);
  if (/[\r\0\u0085\u2028\u2029]/.test(text)) throw fault("a frame holds NUL, or an end of a line that is no LF");
  const lines = text.split("\n");
  const [first = ""] = lines;
  const id = first.startsWith("id: ") ? first.slice(4) : undefined;
  if (id !== undefined && !ID.test(id)) throw fault("a position has other characters, or too many");
  if (id !== undefined && lines.length === 1) return { kind: "place", id };
  const data = lines.slice(id === undefined ? 0 : 1);
  if (data.length !== 1 || !data[0]!.startsWith("data: ")) throw fault("a frame has other lines than id and data");
  return { kind: "event", event: readEvent(data[0]!.slice(6), id) };
}

function readEvent(json: string, id: string | undefined): StreamEvent {
  const { seq, sessionId, requestId, ...rest } = Envelope.parse(JSON.parse(json));
  const { type, data } = rest;
  const schema = SCHEMAS.get(type);
  if (!schema) throw new Error(`there is no event of type ${type}: ${json}`);
  // An unfinished message is marked as streaming; only its end is logged.
  const reading = schema.safeParse(data);
  if (!reading.success) throw new Error(`${type} is not as published: ${z.prettifyError(reading.error)} in ${json}`);
  const isLogged = seq !== undefined || (type in LOGGED_EVENTS && sessionId === undefined && type !== "error");
  if (type !== "agent_list" && (id !== undefined) !== (isLogged || type === "reset"))
    throw new Error(`${type} with the id ${id}: ${json}`);
  if (seq !== undefined && !(type in LOGGED_EVENTS)) throw new Error(`${type} is logged: ${json}`);
  return {
    ...rest,
    data: data as EventData,
    ...(id !== undefined && { id }),
    ...(sessionId !== undefined && { sessionId }),
    ...(seq !== undefined && { seq }),
    ...(requestId !== undefined && { requestId }),
  };
}
