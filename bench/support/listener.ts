import { connect } from "node:net";

/** A reader of one event stream that waits for texts. */
export interface Listener {
  /** @returns the time at which the text arrived, of `performance.now()` */
  hears: (text: string) => Promise<number>;
  close: () => void;
}

/** Resolves when the head of the stream has arrived. */
export async function listen(url: string, path: string): Promise<Listener> {
  const { hostname, port, host } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.setNoDelay(true).setEncoding("latin1");
  let waiting: { text: string; resolve: (at: number) => void } | undefined;
  await new Promise<void>((resolve) => {
    socket.on("data", (chunk: string) => {
      resolve();
      if (!waiting || !chunk.includes(waiting.text)) return;
      waiting.resolve(performance.now());
      waiting = undefined;
    });
    socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAccept: text/event-stream\r\n\r\n`);
  });
  return {
    hears: (text) =>
      new Promise((resolve) => {
        waiting = { text, resolve };
      }),
    close: () => socket.destroy(),
  };
}
