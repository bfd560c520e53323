import type { FloorId } from "../../protocol/ids.ts";
import type { Envelope } from "../../protocol/internal/command.ts";
import { type Span, type Trace, type Tracer, traceIdOf } from "../../shared/ports/tracer.ts";

/** A command in a batch. */
export interface TracedCommand {
  readonly envelope: Envelope;
  /** The span of its batch in its own trace; set when the batch begins. */
  span?: Span | undefined;
}

/**
 * Begin a span per traced command of a batch, so that every trace shows the shared commit and its outcome. Without a
 * tracer, do nothing.
 * @returns what ends them; `failure`: the name of the error
 */
export function traceBatch(
  tracer: Tracer | undefined,
  floorId: FloorId,
  commands: readonly TracedCommand[],
): ((outcome: "committed" | "unchanged" | "failed", failure?: string) => void) | undefined {
  if (!tracer) return undefined;
  const attributes = { "interlock.floor.id": floorId, "interlock.batch": commands.length };
  for (const pending of commands) {
    const { trace } = pending.envelope;
    pending.span = trace === undefined ? undefined : tracer.begin("commit", "commit", trace, attributes);
  }
  return (outcome, failure) => {
    for (const { span } of commands) span?.end({ "interlock.outcome": outcome }, failure);
  };
}

/** The trace that the runs started by a command belong to. */
export const traceOf = ({ span, envelope }: TracedCommand): Trace | undefined => span?.trace ?? envelope.trace;

/** The fields of a command in a log line. */
export function fieldsOf({ command, commandId, trace }: Envelope): object {
  return {
    command: command.type,
    commandId,
    ...("sessionId" in command && { sessionId: command.sessionId }),
    ...("runId" in command && { runId: command.runId }),
    ...(trace !== undefined && { traceId: traceIdOf(trace) }),
  };
}
