import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket, connect as tcpConnect } from "node:net";
import { onTestFinished } from "vitest";

/**
 * A TCP proxy to a server on another port, which is closed when the test ends. Subclasses decide what is forwarded, and
 * how.
 */
export abstract class TcpProxy {
  /** Both ends of every open connection. */
  protected readonly sockets = new Set<Socket>();
  readonly #server: Server;
  readonly #target: URL;

  /** @param target the server's URL */
  constructor(target: string) {
    this.#target = new URL(target);
    this.#server = createServer((client) => this.#join(client));
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** The proxy's URL, with the same scheme as the server's. */
  get url(): string {
    return `${this.#target.protocol}//127.0.0.1:${this.port}`;
  }

  /** Forward data in both directions. */
  protected abstract carry(client: Socket, upstream: Socket): void;

  protected async open(): Promise<this> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    onTestFinished(() => {
      this.#server.close();
      for (const socket of this.sockets) socket.destroy();
    });
    return this;
  }

  #join(client: Socket): void {
    const upstream = tcpConnect(Number(this.#target.port), this.#target.hostname);
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      this.sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        this.sockets.delete(socket);
        other.destroy();
      });
    }
    this.carry(client, upstream);
  }
}
