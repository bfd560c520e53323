import { json, SmallServer } from "./small-server.ts";

type Value = string | number;

/** A span as it was sent. */
export interface SentSpan {
  name: string;
  /** OTLP's number: 1 internal, 2 server, 5 consumer. */
  kind: number;
  traceId: string;
  spanId: string;
  parentSpanId: string;
  isError: boolean;
  facts: Record<string, Value>;
  /** The attributes that all spans of a node share. */
  about: Record<string, Value>;
}

/** The fields of OTLP's JSON that tests read. */
interface Payload {
  resourceSpans: {
    resource: { attributes: Attribute[] };
    scopeSpans: { spans: RawSpan[] }[];
  }[];
}

interface RawSpan extends Pick<SentSpan, "name" | "kind" | "traceId" | "spanId"> {
  parentSpanId?: string;
  status: { code: number };
  attributes: Attribute[];
}

interface Attribute {
  key: string;
  value: { stringValue?: string; intValue?: number };
}

/** A receiver of traces like OpenTelemetry's collector: OTLP as JSON over HTTP. */
export class TraceCollector {
  readonly #server: SmallServer;

  private constructor(server: SmallServer) {
    this.#server = server;
  }

  static async start(): Promise<TraceCollector> {
    return new TraceCollector(await SmallServer.start(json({ partialSuccess: {} })));
  }

  /** The variables that make a node send its traces here. */
  get env(): Record<string, string> {
    return { OTEL_EXPORTER_OTLP_ENDPOINT: this.#server.url };
  }

  /** The path to which traces were sent. */
  get paths(): string[] {
    return this.#server.heard.map(({ url }) => url);
  }

  /** All spans received so far; a node sends its last ones when it stops. */
  get spans(): SentSpan[] {
    return this.#server.heard.flatMap(({ body }) =>
      (JSON.parse(body) as Payload).resourceSpans.flatMap(({ resource, scopeSpans }) =>
        scopeSpans.flatMap(({ spans }) => spans.map((span) => toSent(span, factsOf(resource.attributes)))),
      ),
    );
  }

  /** The one span with this name directly below `parent`. */
  below(parent: SentSpan, name: string): SentSpan {
    const found = this.spans.filter((span) => span.parentSpanId === parent.spanId && span.name === name);
    if (found.length !== 1) throw new Error(`${found.length} spans ${name} below ${parent.name}`);
    return found[0]!;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#server[Symbol.asyncDispose]();
  }
}

function toSent(
  { name, kind, traceId, spanId, parentSpanId = "", status, attributes }: RawSpan,
  about: SentSpan["about"],
) {
  return { name, kind, traceId, spanId, parentSpanId, isError: status.code === 2, facts: factsOf(attributes), about };
}

function factsOf(attributes: readonly Attribute[]): Record<string, Value> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue ?? ""]));
}
