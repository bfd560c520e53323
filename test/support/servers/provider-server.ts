import { EventEmitter, once } from "node:events";
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { type TokenCounts, WIRES, type Wire, type WireCall, type WireEnding, type WireError } from "./provider-wire.ts";
import { SmallServer } from "./small-server.ts";

/** The server's reaction to one request. */
export type ProviderReply =
  | {
      readonly kind: "stream";
      readonly reasoning?: readonly string[];
      /** One delta each. */
      readonly text?: readonly string[];
      /** What all but the first delta of the text waits for. */
      readonly pause?: Promise<unknown>;
      readonly calls?: readonly WireCall[];
      readonly usage?: TokenCounts;
      /**
       * How the stream ends: complete (default), by the provider's filter, at the model's length limit, with a broken
       * connection, closed before its end, never, or with an error; complete, on a connection that breaks or stays
       * open.
       */
      readonly ending?: WireEnding | "cut" | "early" | "never" | "breaks" | "lingers" | WireError;
    }
  | {
      readonly kind: "refusal";
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly error?: Partial<WireError>;
    }
  /** The connection breaks before the answer starts. */
  | { readonly kind: "cut" };

export interface ProviderRequest {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** Resolves when the connection of this request has ended: answered, broken, or closed by the client. */
  readonly closed: Promise<void>;
}

export interface ProviderServer {
  readonly baseUrl: string;
  /** All requests, the oldest first. */
  readonly requests: readonly ProviderRequest[];
  /** The answers to the next requests, one each. A request without one is answered by `replyBy`, or with 500. */
  willReply(...replies: readonly ProviderReply[]): void;
  /** Chooses the answer by the request, for concurrent models. */
  replyBy(choose: (request: ProviderRequest) => ProviderReply | undefined): void;
  /** The next request to arrive. */
  nextRequest(): Promise<ProviderRequest>;
  close(): Promise<void>;
}

/**
 * A model provider on this machine that speaks the wire formats of OpenAI responses, OpenAI chat completions, Anthropic
 * messages and Gemini, selected by the path.
 */
export async function startProviderServer(): Promise<ProviderServer> {
  const requests: ProviderRequest[] = [];
  const replies: ProviderReply[] = [];
  const arrivals = new EventEmitter();
  let choose: (request: ProviderRequest) => ProviderReply | undefined = () => undefined;

  const server = await SmallServer.start(async (response, { url: path, method, headers, body }) => {
    const closed = new Promise<void>((resolve) => response.once("close", resolve));
    const arrived = { path, headers, body, closed };
    requests.push(arrived);
    arrivals.emit("request", arrived);
    const wire = Object.values(WIRES).find((each) => path.endsWith(each.path));
    const unscripted = { kind: "refusal", status: 500, error: { message: "no reply was scripted" } } as const;
    const reply = replies.shift() ?? choose(arrived) ?? unscripted;
    if (wire && method === "POST") await play(reply, wire, response);
    else response.writeHead(404).end();
  });

  return {
    baseUrl: `${server.url}/v1`,
    requests,
    willReply: (...more) => void replies.push(...more),
    replyBy(by) {
      choose = by;
    },
    nextRequest: async () => (await once(arrivals, "request"))[0] as ProviderRequest,
    close: () => server[Symbol.asyncDispose](),
  };
}

async function play(reply: ProviderReply, wire: Wire, response: ServerResponse): Promise<void> {
  if (reply.kind === "cut") {
    response.destroy();
    return;
  }
  if (reply.kind === "refusal") {
    response.writeHead(reply.status, { "content-type": "application/json", ...reply.headers });
    response.end(JSON.stringify(wire.refusal({ type: "some_error", message: "some message", ...reply.error })));
    return;
  }
  const { reasoning, text = [], pause, calls, usage = { input: 1, output: 1 }, ending = "whole" } = reply;
  response.writeHead(200, { "content-type": "text/event-stream" });
  let frames = wire.open();
  if (reasoning) frames += wire.reasoning(reasoning);
  if (pause) {
    response.write(frames + wire.text(text.slice(0, 1)));
    await pause;
    frames = "";
  }
  const rest = pause ? text.slice(1) : text;
  if (rest.length > 0) frames += wire.text(rest);
  if (calls) frames += wire.calls(calls);
  if (ending === "whole" || ending === "breaks" || ending === "lingers")
    frames += wire.close(usage, calls ? "calls" : "whole");
  if (ending === "filtered" || ending === "length") frames += wire.close(usage, ending);
  if (typeof ending === "object") frames += wire.error(ending);
  // Only after the frames were sent: otherwise the connection could break before the answer.
  await new Promise<void>((resolve) => response.write(frames, () => resolve()));
  if (ending === "cut" || ending === "breaks") response.destroy();
  else if (ending !== "never" && ending !== "lingers") response.end();
}
