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
  /** What is the same for all spans of its node. */
  about: Record<string, Value>;
}

/** The part of OTLP's JSON that is looked at. */
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

/** A place that takes traces, as OpenTelemetry's collector does: OTLP as JSON over HTTP. */
export class TraceCollector {
  readonly #server: SmallServer;

  private constructor(server: SmallServer) {
    this.#server = server;
  }

  static async start(): Promise<TraceCollector> {
    return new TraceCollector(await SmallServer.start(json({ partialSuccess: {} })));
  }

  /** What makes a node send its traces here. */
  get env(): Record<string, string> {
    return { OTEL_EXPORTER_OTLP_ENDPOINT: this.#server.url };
  }

  /** Where it was sent to. */
  get paths(): string[] {
    return this.#server.heard.map(({ url }) => url);
  }

  /** All that was sent until now; a node sends the last of it when it stops. */
  get spans(): SentSpan[] {
    return this.#server.heard.flatMap(({ body }) =>
      (JSON.parse(body) as Payload).resourceSpans.flatMap(({ resource, scopeSpans }) =>
        scopeSpans.flatMap(({ spans }) => spans.map((span) => toSent(span, factsOf(resource.attributes)))),
      ),
    );
  }

  /** The one span of this name that comes right below `parent`. */
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
