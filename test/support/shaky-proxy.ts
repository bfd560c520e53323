import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket, connect as tcpConnect } from "node:net";
import { onTestFinished } from "vitest";
import type { Chance } from "./chance.ts";

/** What a server tells clients to wait, and what they are told in its place: as long, and shorter. */
const RETRY = /retry: (\d+)\n/g;
const HASTE_MS = "20";

/**
 * A road to a server that breaks all the time: each connection after some bytes, in the middle of whatever they are.
 * Whoever was told how long to wait before it comes back is told to wait less.
 */
export class ShakyProxy {
  readonly #server: Server;
  readonly #target: URL;
  readonly #sockets = new Set<Socket>();
  /** Bytes after which the next connection breaks; undefined: it holds. */
  nextCut: () => number | undefined;
  /** Connections that it broke. */
  cuts = 0;

  private constructor(target: URL, nextCut: () => number | undefined) {
    this.#target = target;
    this.nextCut = nextCut;
    this.#server = createServer((client) => this.#join(client));
  }

  /** Breaks after `from` to `to` bytes, as chance has it. */
  static async start(target: string, chance: Chance, from: number, to: number): Promise<ShakyProxy> {
    const proxy = new ShakyProxy(new URL(target), () => from + chance.below(to - from));
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    onTestFinished(() => {
      proxy.#server.close();
      for (const socket of proxy.#sockets) socket.destroy();
    });
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  #join(client: Socket): void {
    const upstream = tcpConnect(Number(this.#target.port), this.#target.hostname);
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
    client.pipe(upstream);
    let left = this.nextCut() ?? Number.POSITIVE_INFINITY;
    upstream.on("data", (bytes: Buffer) => {
      const hastened = Buffer.from(
        bytes.toString("latin1").replace(RETRY, (_, ms: string) => `retry: ${HASTE_MS.padStart(ms.length, "0")}\n`),
        "latin1",
      );
      client.write(hastened.subarray(0, left));
      left -= hastened.byteLength;
      if (left > 0) return;
      this.cuts += 1;
      upstream.destroy();
      client.end();
    });
    upstream.on("end", () => client.end());
  }
}
