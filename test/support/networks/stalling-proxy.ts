import type { Socket } from "node:net";
import { TcpProxy } from "./tcp-proxy.ts";

/**
 * A proxy to a server that can stall: it accepts connections, forwards nothing, or nothing that the server sends, and
 * neither side is notified.
 */
export class StallingProxy extends TcpProxy {
  readonly #upstreams = new Set<Socket>();
  #stalled: "all" | "answers" | undefined;

  static start(target: string): Promise<StallingProxy> {
    return new StallingProxy(target).open();
  }

  stall(what: "all" | "answers" = "all"): void {
    this.#stalled = what;
    for (const socket of this.sockets) this.#hold(socket);
  }

  resume(): void {
    this.#stalled = undefined;
    for (const socket of this.sockets) socket.resume();
  }

  protected override carry(client: Socket, upstream: Socket): void {
    this.#upstreams.add(upstream);
    client.on("data", (bytes) => upstream.write(bytes));
    upstream.on("data", (bytes) => client.write(bytes));
    for (const socket of [client, upstream]) this.#hold(socket);
  }

  #hold(socket: Socket): void {
    if (this.#stalled === "all" || (this.#stalled && this.#upstreams.has(socket))) socket.pause();
  }
}
