import type { AnyMessage, Stream } from "@agentclientprotocol/sdk";
import type { ChildProgram } from "../process/child-program.ts";
import type { Line } from "../process/line-reader.ts";

/** What the stream keeps from the SDK: it validates updates by printing to the console, and knows no back-pressure. */
export interface Intercepted {
  /** The params of a `session/update`. */
  update(params: unknown): void;
  /** A line that is no message. */
  nonsense(line: string): void;
}

/**
 * A program's standard streams as the SDK wants them. A message is read when the one before it was taken, and no sooner
 * than `lines` gives it: that is how a run is held.
 *
 * @throws what `tooLong` makes, into the readable side, for a line that is longer than a message may be
 */
export function toStream(
  lines: AsyncGenerator<Line>,
  stdin: ChildProgram["stdin"],
  { update, nonsense }: Intercepted,
  tooLong: () => Error,
): Stream {
  const readable = new ReadableStream<AnyMessage>(
    {
      async pull(controller) {
        for (;;) {
          const next = await lines.next();
          if (next.done) return controller.close();
          const { text, isEnd } = next.value;
          if (!isEnd) throw tooLong();
          if (text.trim() === "") continue;
          const message = parse(text);
          if (!message) nonsense(text);
          else if (message["method"] === "session/update") update(message["params"]);
          else return controller.enqueue(message as unknown as AnyMessage);
        }
      },
    },
    { highWaterMark: 0 },
  );
  const writable = new WritableStream<AnyMessage>({
    // Errors of a program that is gone are told by its end.
    write: (message) =>
      new Promise((resolve) => {
        if (stdin.destroyed || stdin.writableEnded) return resolve();
        stdin.write(`${JSON.stringify(message)}\n`, () => resolve());
      }),
  });
  return { readable, writable };
}

/** A JSON-RPC message; undefined for anything else. */
function parse(text: string): Record<string, unknown> | undefined {
  try {
    const message: unknown = JSON.parse(text);
    const isMessage = typeof message === "object" && message !== null && "jsonrpc" in message;
    return isMessage ? (message as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
