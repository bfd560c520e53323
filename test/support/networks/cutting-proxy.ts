import type { Socket } from "node:net";
import { Road } from "./road.ts";

const PAGE = "<h1>Bad Gateway</h1>";
const BAD_GATEWAY = [
  "HTTP/1.1 502 Bad Gateway",
  "Content-Type: text/html",
  `Content-Length: ${PAGE.length}`,
  "Connection: close",
  "",
  PAGE,
].join("\r\n");

/** A road to a server that is cut off now and then: clients reach it here, and lose it when they are told to. */
export class CuttingProxy extends Road {
  /** Connections made so far. */
  connections = 0;

  #does: "carry" | "refuse" | "502" = "carry";

  static start(target: string): Promise<CuttingProxy> {
    return new CuttingProxy(target).open();
  }

  /** Whoever is connected is so no more. */
  cut(): void {
    for (const socket of this.sockets) socket.resetAndDestroy();
  }

  /** Whoever is connected is so no more, and nobody gets through until `admit`. */
  refuse(): void {
    this.#does = "refuse";
    this.cut();
  }

  /** Break all connections, and answer every request as a proxy whose server is gone, until `admit`. */
  answer502(): void {
    this.#does = "502";
    this.cut();
  }

  admit(): void {
    this.#does = "carry";
  }

  protected override carry(client: Socket, upstream: Socket): void {
    if (this.#does === "refuse") return void client.resetAndDestroy();
    if (this.#does === "502") return void client.once("data", () => client.end(BAD_GATEWAY));
    this.connections += 1;
    client.pipe(upstream).pipe(client);
  }
}
