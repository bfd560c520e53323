import type { Socket } from "node:net";
import { TcpProxy } from "./tcp-proxy.ts";

const GAVE_UP = "HTTP/1.1 504 Gateway Time-out\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/** A proxy to a server that loses answers when the test says so. */
export class LosingProxy extends TcpProxy {
  /** Answers that it has lost. */
  lost = 0;
  #loses: "nothing" | "next answer" = "nothing";
  readonly #carried = new Set<Socket>();

  static start(target: string): Promise<LosingProxy> {
    return new LosingProxy(target).open();
  }

  /** Read the beginning of the next answer, and close both connections without it. */
  loseNextAnswer(): void {
    this.#loses = "next answer";
  }

  /** Answer the requests under way like a proxy that has waited for too long, and hang up on the server. */
  giveUp(): void {
    this.lost += this.#carried.size;
    for (const client of this.#carried) client.end(GAVE_UP);
  }

  protected override carry(client: Socket, upstream: Socket): void {
    this.#carried.add(client);
    client.once("close", () => this.#carried.delete(client));
    client.pipe(upstream);
    upstream.on("data", (piece) => {
      if (this.#loses === "nothing") return void client.write(piece);
      this.#loses = "nothing";
      this.lost += 1;
      client.destroy();
      upstream.destroy();
    });
    upstream.once("end", () => client.end());
  }
}
