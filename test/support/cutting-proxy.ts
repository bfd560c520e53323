import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket, connect as tcpConnect } from "node:net";
import { onTestFinished } from "vitest";

/** A road to a server that is cut off now and then: clients reach it here, and lose it when they are told to. */
export class CuttingProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Connections made so far. */
  connections = 0;

  private constructor(target: URL) {
    this.#server = createServer((client) => {
      this.connections += 1;
      const upstream = tcpConnect(Number(target.port), target.hostname);
      client.pipe(upstream).pipe(client);
      for (const [socket, other] of [
        [client, upstream],
        [upstream, client],
      ] as const) {
        this.#sockets.add(socket);
        socket.on("error", () => {});
        socket.on("close", () => {
          this.#sockets.delete(socket);
          other.destroy();
        });
      }
    });
  }

  static async start(target: string): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(new URL(target));
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    onTestFinished(() => {
      proxy.#server.close();
      proxy.cut();
    });
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Whoever is connected is so no more. */
  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }
}
