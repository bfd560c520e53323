import {
  type Context,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  type Tracer as Telemetry,
  trace,
} from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import {
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceNameEnvDetector,
} from "@opentelemetry/resources";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { TraceSettings } from "../config/traces.ts";
import type { Logger } from "../shared/ports/logger.ts";
import type { SpanKind as Kind, Span, SpanAttributes, Trace, Tracer } from "../shared/ports/tracer.ts";

/** Spans that may wait to be sent, about 10 MB; further ones are dropped. */
const MAX_WAITING_SPANS = 8_192;
const SENT_TOGETHER = 1_024;
/** How long an unresponsive collector may delay the end of the process, in ms. */
const FAREWELL_MS = 1_000;

const KINDS: Readonly<Record<Kind, SpanKind>> = {
  request: SpanKind.SERVER,
  send: SpanKind.INTERNAL,
  commit: SpanKind.INTERNAL,
  run: SpanKind.CONSUMER,
};

export interface TracingOptions {
  settings: TraceSettings;
  /** Resource attributes of all spans of this node, in addition to those from the environment. */
  about: SpanAttributes;
  log: Logger;
}

/**
 * Exports traces over OTLP. Only this module uses OpenTelemetry's libraries, and it is loaded only when tracing is on.
 * The libraries read headers, certificates and further attributes from the process's environment themselves.
 */
export class Tracing implements Tracer {
  readonly #provider: TracerProvider;
  readonly #telemetry: Telemetry;

  constructor({ settings, about, log }: TracingOptions) {
    const detected = detectResources({ detectors: [resourceAttributesEnvDetector, serviceNameEnvDetector] });
    const resource = resourceFromAttributes({ "service.name": "interlock", ...about }).merge(detected);
    this.#provider = new TracerProvider({
      resource,
      sampler: samplerOf(settings),
      spanProcessors: [
        new BatchSpanProcessor({
          exporter: createExporter(settings.url, log),
          maxQueueSize: MAX_WAITING_SPANS,
          maxExportBatchSize: SENT_TOGETHER,
        }),
      ],
    });
    this.#telemetry = this.#provider.getTracer("interlock");
  }

  begin(kind: Kind, name: string, parent: Trace | undefined, attributes: SpanAttributes): Span {
    const span = this.#telemetry.startSpan(name, { kind: KINDS[kind], attributes }, contextOf(parent));
    const { traceId, spanId, traceFlags } = span.spanContext();
    return {
      trace: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`,
      end(more, failure) {
        span.setAttributes(more);
        if (failure !== undefined) span.setStatus({ code: SpanStatusCode.ERROR, message: failure });
        span.end();
      },
    };
  }

  /** Send the waiting spans, for at most 1 s. */
  async close(): Promise<void> {
    const tooLong = new Promise<void>((resolve) => {
      setTimeout(resolve, FAREWELL_MS).unref();
    });
    // The exporter logs spans that could not be sent.
    await Promise.race([this.#provider.shutdown().catch(() => {}), tooLong]);
  }
}

function contextOf(parent: Trace | undefined): Context {
  if (parent === undefined) return ROOT_CONTEXT;
  const [, traceId = "", spanId = "", flags = ""] = parent.split("-");
  const spanContext = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  return trace.setSpanContext(ROOT_CONTEXT, spanContext);
}

function samplerOf({ sampler: { kind, ratio, parent } }: TraceSettings): Sampler {
  const root =
    kind === "ratio"
      ? new TraceIdRatioBasedSampler(ratio)
      : kind === "always"
        ? new AlwaysOnSampler()
        : new AlwaysOffSampler();
  return parent ? new ParentBasedSampler({ root }) : root;
}

/** An exporter that logs once when it cannot send, and once when it can again. */
function createExporter(url: string, log: Logger): OTLPTraceExporter {
  const exporter = new OTLPTraceExporter({ url });
  const send = exporter.export.bind(exporter);
  let isAway = false;
  exporter.export = (spans, onSent) =>
    send(spans, (result) => {
      const isSent = result.error === undefined;
      if (!isSent && !isAway) log.warn({ url, reason: result.error?.message }, "traces cannot be sent; they are lost");
      if (isSent && isAway) log.info({ url }, "traces are sent again");
      isAway = !isSent;
      onSent(result);
    });
  return exporter;
}
