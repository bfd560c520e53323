import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket, connect as tcpConnect } from "node:net";
import { onTestFinished } from "vitest";

/**
 * A road to a server: clients reach it by another port, which is gone when the test ends. What travels on it, and how,
 * is said by those that extend it.
 */
export abstract class Road {
  /** Both ends of every connection there is. */
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

  /** The road's own URL, of the same kind as the server's. */
  get url(): string {
    return `${this.#target.protocol}//127.0.0.1:${this.port}`;
  }

  /** Let what comes from either side go to the other. */
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
