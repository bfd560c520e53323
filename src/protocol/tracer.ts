import { z } from "zod";

/**
 * A place in a trace, as W3C's Trace Context writes it (`traceparent`): what a piece of work names as its parent,
 * however far away that is.
 */
export const Trace = z
  .string()
  .regex(/^(?!ff)[\da-f]{2}-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/, "is no traceparent");
export type Trace = z.infer<typeof Trace>;

/** What all the work of one trace has in common. */
export const traceIdOf = (trace: Trace): string => trace.slice(3, 35);

/** A request to the gateway; what it asked a floor; the floor's commit; the run that came of it. */
export type SpanKind = "request" | "ask" | "commit" | "run";
export type SpanFacts = Readonly<Record<string, string | number>>;

/** A piece of work that is under way. */
export interface Span {
  /** What work that comes of it names as its parent. */
  readonly trace: Trace;
  /** It is over. `failure`: why it did not come to what it was to do. */
  end(facts: SpanFacts, failure?: string): void;
}

/**
 * Where traces go. Absent where nobody traces: `tracer?.begin(…)` then costs a comparison, and not even its facts are
 * made.
 */
export interface Tracer {
  /** `name`: one of few, for all the work that is alike. Without a parent a trace begins. */
  begin(kind: SpanKind, name: string, parent: Trace | undefined, facts: SpanFacts): Span;
}
