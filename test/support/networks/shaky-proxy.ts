import type { Socket } from "node:net";
import type { Chance } from "../runner/chance.ts";
import { Road } from "./road.ts";

/** What a server tells clients to wait, and what they are told in its place: as long, and shorter. */
const RETRY = /retry: (\d+)\n/g;
const HASTE_MS = "20";

/**
 * A road to a server that breaks all the time: each connection after some bytes, in the middle of whatever they are.
 * Whoever was told how long to wait before it comes back is told to wait less.
 */
export class ShakyProxy extends Road {
  /** Bytes after which the next connection breaks; undefined: it holds. */
  nextCut: () => number | undefined = () => undefined;
  /** Connections that it broke. */
  cuts = 0;

  /** Breaks after `from` to `to` bytes, as chance has it. */
  static start(target: string, chance: Chance, from: number, to: number): Promise<ShakyProxy> {
    const proxy = new ShakyProxy(target);
    proxy.nextCut = () => from + chance.below(to - from);
    return proxy.open();
  }

  protected override carry(client: Socket, upstream: Socket): void {
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
