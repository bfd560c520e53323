import type { Socket } from "node:net";
import type { Chance } from "../runner/chance.ts";
import { TcpProxy } from "./tcp-proxy.ts";

/** The server's reconnection delay, and the shorter one of the same length that replaces it. */
const RETRY = /retry: (\d+)\n/g;
const HASTE_MS = "20";

/** The bytes of a stream with the shorter delay. */
export function withHaste(bytes: Buffer): Buffer {
  const hasty = (_: string, ms: string) => `retry: ${HASTE_MS.padStart(ms.length, "0")}\n`;
  return Buffer.from(bytes.toString("latin1").replace(RETRY, hasty), "latin1");
}

/**
 * A proxy to a server that breaks each connection after some bytes, at any byte. It shortens the reconnection delay
 * that the server sends.
 */
export class ShakyProxy extends TcpProxy {
  /** Bytes after which the next connection breaks; undefined: it stays open. */
  nextCut: () => number | undefined = () => undefined;
  /** Connections that it broke. */
  cuts = 0;

  /** Break after `from` to `to` bytes, at random. */
  static start(target: string, chance: Chance, from: number, to: number): Promise<ShakyProxy> {
    const proxy = new ShakyProxy(target);
    proxy.nextCut = () => from + chance.below(to - from);
    return proxy.open();
  }

  protected override carry(client: Socket, upstream: Socket): void {
    client.pipe(upstream);
    let left = this.nextCut() ?? Number.POSITIVE_INFINITY;
    upstream.on("data", (bytes: Buffer) => {
      const hastened = withHaste(bytes);
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
