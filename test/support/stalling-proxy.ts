import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket, connect as tcpConnect } from "node:net";
import { onTestFinished } from "vitest";

/**
 * A road to a server that may come to a halt: while it does, nothing travels on it, in either direction, and nobody is
 * told; whoever comes is let on and gets no further.
 */
export class StallingProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isStalled = false;

  private constructor(target: URL) {
    this.#server = createServer((client) => {
      const upstream = tcpConnect(Number(target.port), target.hostname);
      for (const [socket, other] of [
        [client, upstream],
        [upstream, client],
      ] as const) {
        this.#sockets.add(socket);
        socket.on("data", (bytes) => other.write(bytes));
        socket.on("error", () => {});
        socket.on("close", () => {
          this.#sockets.delete(socket);
          other.destroy();
        });
        if (this.#isStalled) socket.pause();
      }
    });
  }

  /** Gone when the test ends. */
  static async start(target: string): Promise<StallingProxy> {
    const proxy = new StallingProxy(new URL(target));
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    onTestFinished(() => {
      proxy.#server.close();
      for (const socket of proxy.#sockets) socket.destroy();
    });
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  stall(): void {
    this.#isStalled = true;
    for (const socket of this.#sockets) socket.pause();
  }

  resume(): void {
    this.#isStalled = false;
    for (const socket of this.#sockets) socket.resume();
  }
}
