import { z } from "zod";

/**
 * A position in a trace, in the format of W3C Trace Context (`traceparent`). A span uses it as its parent, also across
 * processes.
 */
export const Trace = z
  .string()
  .regex(/^(?!ff)[\da-f]{2}-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/, "is not a traceparent");
export type Trace = z.infer<typeof Trace>;

/** The trace id: the part shared by all spans of a trace. */
export const traceIdOf = (trace: Trace): string => trace.slice(3, 35);

/** A request to the gateway, the command it sent to a floor, the floor's commit, and the resulting run. */
export type SpanKind = "request" | "send" | "commit" | "run";
export type SpanAttributes = Readonly<Record<string, string | number>>;

/** A unit of work in progress. */
export interface Span {
  /** The parent for spans of the work that this one causes. */
  readonly trace: Trace;
  /** End the span. `failure`: why the work failed; absent on success. */
  end(attributes: SpanAttributes, failure?: string): void;
}

/**
 * Creates spans. Undefined when tracing is off: `tracer?.begin(…)` then costs one comparison and evaluates no
 * arguments.
 */
export interface Tracer {
  /** Start a span. `name` must have low cardinality. Without a parent the span starts a new trace. */
  begin(kind: SpanKind, name: string, parent: Trace | undefined, attributes: SpanAttributes): Span;
}
