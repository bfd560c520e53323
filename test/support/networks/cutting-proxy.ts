import type { Socket } from "node:net";
import { withHaste } from "./shaky-proxy.ts";
import { TcpProxy } from "./tcp-proxy.ts";

const PAGE = "<h1>Bad Gateway</h1>";
const BAD_GATEWAY = [
  "HTTP/1.1 502 Bad Gateway",
  "Content-Type: text/html",
  `Content-Length: ${PAGE.length}`,
  "Connection: close",
  "",
  PAGE,
].join("\r\n");

/** A proxy to a server that breaks connections when the test says so. */
export class CuttingProxy extends TcpProxy {
  /** Connections accepted so far. */
  connections = 0;

  /** Whether readers of streams come back soon. */
  isHasty = false;

  #does: "carry" | "refuse" | "502" = "carry";

  static start(target: string): Promise<CuttingProxy> {
    return new CuttingProxy(target).open();
  }

  /** Break all connections. */
  cut(): void {
    for (const socket of this.sockets) socket.resetAndDestroy();
  }

  /** Break all connections, and accept none until `admit`. */
  refuse(): void {
    this.#does = "refuse";
    this.cut();
  }

  /** Break all connections, and answer every request like a proxy whose server is down, until `admit`. */
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
    client.pipe(upstream);
    if (!this.isHasty) return void upstream.pipe(client);
    upstream.on("data", (bytes: Buffer) => client.write(withHaste(bytes))).on("end", () => client.end());
  }
}
