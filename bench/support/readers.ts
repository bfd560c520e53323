import { connect, type Socket } from "node:net";

/** The bytes of one event's frame, about the size of a transition. */
export const FRAME_BYTES = 320;

/** Many readers of event streams that only count frames. */
export class Readers {
  readonly #sockets: Socket[];
  #frames = 0;
  #wanted = Number.POSITIVE_INFINITY;
  #done: (() => void) | undefined;

  private constructor(sockets: Socket[]) {
    this.#sockets = sockets;
  }

  /** Resolves when the head of every stream has arrived. */
  static async open(url: string, paths: readonly string[]): Promise<Readers> {
    const { hostname, port, host } = new URL(url);
    const sockets: Socket[] = [];
    const readers = new Readers(sockets);
    // In groups: a listen backlog does not take thousands of connections at once.
    for (let from = 0; from < paths.length; from += 100) {
      await Promise.all(
        paths.slice(from, from + 100).map(async (path) => {
          const socket = connect(Number(port), hostname);
          sockets.push(socket);
          await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
          socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAccept: text/event-stream\r\n\r\n`);
          await new Promise((resolve) => socket.once("data", resolve));
          socket.on("data", (chunk: Buffer) => readers.#count(chunk));
        }),
      );
    }
    return readers;
  }

  /** Resolves when `count` more data frames have arrived at all readers together. */
  async frames(count: number): Promise<void> {
    this.#frames = 0;
    this.#wanted = count;
    await new Promise<void>((resolve) => {
      this.#done = resolve;
    });
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #count(chunk: Buffer): void {
    for (let at = chunk.indexOf("data: "); at >= 0; at = chunk.indexOf("data: ", at + 6)) this.#frames += 1;
    if (this.#frames < this.#wanted) return;
    this.#wanted = Number.POSITIVE_INFINITY;
    this.#done?.();
  }
}
