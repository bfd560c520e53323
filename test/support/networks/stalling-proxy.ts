import type { Socket } from "node:net";
import { TcpProxy } from "./tcp-proxy.ts";

/**
 * A proxy to a server that can stall: it accepts connections, forwards nothing in either direction, and neither side is
 * notified.
 */
export class StallingProxy extends TcpProxy {
  #isStalled = false;

  static start(target: string): Promise<StallingProxy> {
    return new StallingProxy(target).open();
  }

  stall(): void {
    this.#isStalled = true;
    for (const socket of this.sockets) socket.pause();
  }

  resume(): void {
    this.#isStalled = false;
    for (const socket of this.sockets) socket.resume();
  }

  protected override carry(client: Socket, upstream: Socket): void {
    client.on("data", (bytes) => upstream.write(bytes));
    upstream.on("data", (bytes) => client.write(bytes));
    if (this.#isStalled) for (const socket of [client, upstream]) socket.pause();
  }
}
