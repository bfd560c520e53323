/** Where traces are sent, and which are sampled. */
export interface TraceSettings {
  /** The endpoint for OTLP as JSON over HTTP. */
  url: string;
  /** Which traces are kept; `ratio` is 0 to 1. `parent`: a caller's own sampling decision takes precedence. */
  sampler: { kind: "always" | "never" | "ratio"; ratio: number; parent: boolean };
}

type Environment = Readonly<Record<string, string | undefined>>;

const SAMPLERS: Readonly<Record<string, Pick<TraceSettings["sampler"], "kind" | "parent">>> = {
  always_on: { kind: "always", parent: false },
  always_off: { kind: "never", parent: false },
  traceidratio: { kind: "ratio", parent: false },
  parentbased_always_on: { kind: "always", parent: true },
  parentbased_always_off: { kind: "never", parent: true },
  parentbased_traceidratio: { kind: "ratio", parent: true },
};

/**
 * Read OpenTelemetry's variables for traces; undefined when they name no endpoint or disable tracing.
 *
 * @throws Error with a sentence for the operator
 */
export function readTraceSettings(env: Environment): TraceSettings | undefined {
  const {
    OTEL_SDK_DISABLED: disabled = "",
    OTEL_TRACES_EXPORTER: exporter = "otlp",
    OTEL_EXPORTER_OTLP_ENDPOINT: endpoint = "",
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: own = "",
    OTEL_TRACES_SAMPLER: sampler = "parentbased_always_on",
    OTEL_TRACES_SAMPLER_ARG: ratio = "1",
  } = withoutEmpty(env);
  if (disabled.toLowerCase() === "true" || exporter === "none" || (own === "" && endpoint === "")) return undefined;
  if (exporter !== "otlp") throw new Error('OTEL_TRACES_EXPORTER must be "otlp" or "none"');
  checkProtocol(env);
  const kept = SAMPLERS[sampler];
  if (!kept) throw new Error(`OTEL_TRACES_SAMPLER must be one of ${Object.keys(SAMPLERS).join(", ")}`);
  const sampled = Number(ratio);
  if (!(sampled >= 0 && sampled <= 1)) throw new Error("OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1");
  const url =
    own === ""
      ? readUrl("OTEL_EXPORTER_OTLP_ENDPOINT", `${endpoint.replace(/\/$/, "")}/v1/traces`)
      : readUrl("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", own);
  return { url, sampler: { ...kept, ratio: sampled } };
}

/** The variable of traces takes precedence over the one of all signals. */
function checkProtocol(env: Environment): void {
  for (const name of ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"]) {
    const protocol = env[name] || undefined;
    if (protocol === "http/json") return;
    if (protocol !== undefined) throw new Error(`${name} must be "http/json": this program supports no other protocol`);
  }
}

function readUrl(name: string, text: string): string {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol)) throw new Error(`${name} must be an http or https URL`);
  return url.href;
}

/** An empty variable counts as unset. */
function withoutEmpty(env: Environment): Environment {
  return Object.fromEntries(Object.entries(env).filter(([name, value]) => name.startsWith("OTEL_") && value !== ""));
}
