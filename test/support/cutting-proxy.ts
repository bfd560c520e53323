import type { Socket } from "node:net";
import { Road } from "./road.ts";

/** A road to a server that is cut off now and then: clients reach it here, and lose it when they are told to. */
export class CuttingProxy extends Road {
  /** Connections made so far. */
  connections = 0;

  static start(target: string): Promise<CuttingProxy> {
    return new CuttingProxy(target).open();
  }

  /** Whoever is connected is so no more. */
  cut(): void {
    for (const socket of this.sockets) socket.resetAndDestroy();
  }

  protected override carry(client: Socket, upstream: Socket): void {
    this.connections += 1;
    client.pipe(upstream).pipe(client);
  }
}
