import type { AnyMessage, Stream } from "@agentclientprotocol/sdk";
import { isTooDeep } from "../../protocol/internal/json-depth.ts";
import { isObject, parseJson } from "../../shared/json.ts";
import type { ChildProgram } from "../process/child-program.ts";
import type { Line } from "../process/line-reader.ts";

/** Requests of a program that may wait for their answers, until it reads them or a person gives them. */
const MAX_UNANSWERED = 256;
/** The total size of unanswered requests, in UTF-16 units; the last request may exceed it. */
const MAX_UNANSWERED_UNITS = 16_777_216;

/** Messages that bypass the SDK, because it prints invalid messages to the console and has no back-pressure. */
export interface Intercepted {
  /** The params of a `session/update`. */
  onUpdate(params: unknown): void;
  /** Called when the answer to a request was read, in the order of the messages. */
  onAnswer(): void;
  /** Called with a line that is not a message, or the answer to no request. */
  onStrayLine(line: string): void;
}

/**
 * A program's standard streams in the form that the SDK requires. The next message is read only after the previous one
 * was consumed and `lines` yields it; pausing `lines` therefore holds a run. While too many or too large requests of
 * the program are unanswered, no further message is read: a program that asks and does not read would fill the memory.
 *
 * @param tooLong makes the error of the readable side for a line that exceeds the size of a message
 */
export function toStream(
  lines: AsyncGenerator<Line>,
  stdin: ChildProgram["stdin"],
  { onUpdate, onAnswer, onStrayLine }: Intercepted,
  tooLong: () => Error,
): Stream {
  const dialogue = new Dialogue();
  /** @returns the message of a line, if it is for the SDK */
  const read = (text: string): Message | undefined => {
    if (text.trim() === "") return undefined;
    const message = parse(text);
    if (!message || !dialogue.receives(message, text.length)) onStrayLine(text);
    else if (message["method"] === "session/update") onUpdate(message["params"]);
    else {
      if (isAnswer(message)) onAnswer();
      return message;
    }
    return undefined;
  };
  const readable = new ReadableStream<AnyMessage>(
    {
      async pull(controller) {
        for (;;) {
          await dialogue.room();
          const next = await lines.next();
          if (next.done) return controller.close();
          const { text, isEnd } = next.value;
          if (!isEnd) throw tooLong();
          const message = read(text);
          if (message) return controller.enqueue(message as unknown as AnyMessage);
        }
      },
    },
    { highWaterMark: 0 },
  );
  const writable = new WritableStream<AnyMessage>({
    // If the program has ended, its exit reports the error.
    write: (message) =>
      new Promise((resolve) => {
        const onWritten = dialogue.sends(message as unknown as Message);
        const done = () => {
          onWritten();
          resolve();
        };
        if (stdin.destroyed || stdin.writableEnded) return done();
        stdin.write(`${JSON.stringify(message)}\n`, done);
      }),
  });
  return { readable, writable };
}

type Message = Record<string, unknown>;

/** Which requests of both sides have no answer. */
class Dialogue {
  /** The ids of our requests. */
  readonly #sent = new Set<unknown>();
  /** The sizes of the program's requests, by id; a program may use one id several times. */
  readonly #received = new Map<unknown, number[]>();
  #unanswered = 0;
  #units = 0;
  #room = Promise.withResolvers<void>();

  /** Resolves while the program may ask more. */
  async room(): Promise<void> {
    while (this.#unanswered >= MAX_UNANSWERED || this.#units >= MAX_UNANSWERED_UNITS) await this.#room.promise;
  }

  /** @returns false for an answer to nothing that was asked */
  receives(message: Message, units: number): boolean {
    const { id } = message;
    if (isAnswer(message)) return this.#sent.delete(id);
    if (!isRequest(message)) return true;
    this.#unanswered += 1;
    this.#units += units;
    this.#received.set(id, [...(this.#received.get(id) ?? []), units]);
    return true;
  }

  /** @returns to call when the program has read the message */
  sends(message: Message): () => void {
    if (isRequest(message)) this.#sent.add(message["id"]);
    return () => {
      if (!isAnswer(message)) return;
      const { id } = message;
      const [units = 0, ...others] = this.#received.get(id) ?? [];
      if (others.length > 0) this.#received.set(id, others);
      else this.#received.delete(id);
      this.#unanswered -= 1;
      this.#units -= units;
      this.#room.resolve();
      this.#room = Promise.withResolvers();
    };
  }
}

const isRequest = ({ method, id }: Message): boolean => method !== undefined && id !== undefined;
const isAnswer = ({ method }: Message): boolean => method === undefined;

/** A JSON-RPC message; undefined for anything else, and for a message that is nested too deeply to be written again. */
function parse(text: string): Message | undefined {
  const message = parseJson(text);
  if (!isObject(message) || message["jsonrpc"] !== "2.0" || isTooDeep(message)) return undefined;
  const { method, id } = message;
  const isNamed = method === undefined || typeof method === "string";
  const isNumbered = id === undefined || id === null || typeof id === "string" || typeof id === "number";
  return isNamed && isNumbered ? message : undefined;
}
