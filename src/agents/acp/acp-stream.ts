import type { AnyMessage, Stream } from "@agentclientprotocol/sdk";
import type { ChildProgram } from "../process/child-program.ts";
import type { Line } from "../process/line-reader.ts";

/** Messages that bypass the SDK, because it prints invalid updates to the console and has no back-pressure. */
export interface Intercepted {
  /** The params of a `session/update`. */
  onUpdate(params: unknown): void;
  /** Called with a line that is not a message. */
  onStrayLine(line: string): void;
}

/**
 * A program's standard streams in the form that the SDK requires. The next message is read only after the previous one
 * was consumed and `lines` yields it; pausing `lines` therefore holds a run.
 *
 * @param tooLong makes the error of the readable side for a line that exceeds the size of a message
 */
export function toStream(
  lines: AsyncGenerator<Line>,
  stdin: ChildProgram["stdin"],
  { onUpdate, onStrayLine }: Intercepted,
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
          if (!message) onStrayLine(text);
          else if (message["method"] === "session/update") onUpdate(message["params"]);
          else return controller.enqueue(message as unknown as AnyMessage);
        }
      },
    },
    { highWaterMark: 0 },
  );
  const writable = new WritableStream<AnyMessage>({
    // If the program has ended, its exit reports the error.
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
