import type { Envelope } from "../protocol/command.ts";
import type { FloorId } from "../protocol/ids.ts";
import { type Span, type Trace, type Tracer, traceIdOf } from "../protocol/tracer.ts";

/** A command in a batch. */
export interface TracedAsk {
  readonly envelope: Envelope;
  /** Its batch, as its trace shows it; set while that is under way. */
  span?: Span | undefined;
}

/**
 * Commit a batch as a span for each of its commands that is part of a trace: all traces have the commit they shared, and
 * what came of it.
 */
export async function traceBatch<T extends string>(
  tracer: Tracer,
  floorId: FloorId,
  asks: readonly TracedAsk[],
  commit: () => Promise<T>,
): Promise<T> {
  const facts = { "interlock.floor.id": floorId, "interlock.batch": asks.length };
  for (const ask of asks) {
    const { trace } = ask.envelope;
    ask.span = trace === undefined ? undefined : tracer.begin("commit", "commit", trace, facts);
  }
  const end = (outcome: string, failure?: string) => {
    for (const { span } of asks) span?.end({ "interlock.outcome": outcome }, failure);
  };
  try {
    const outcome = await commit();
    end(outcome);
    return outcome;
  } catch (error) {
    end("failed", (error as Error).name);
    throw error;
  }
}

/** What the runs that a command wishes for are part of. */
export const traceOf = ({ span, envelope }: TracedAsk): Trace | undefined => span?.trace ?? envelope.trace;

/** What a log tells of a command. */
export function factsOf({ command, commandId, trace }: Envelope): object {
  return {
    command: command.type,
    commandId,
    ...("sessionId" in command && { sessionId: command.sessionId }),
    ...("runId" in command && { runId: command.runId }),
    ...(trace !== undefined && { traceId: traceIdOf(trace) }),
  };
}
