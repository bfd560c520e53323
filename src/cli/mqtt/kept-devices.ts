/** What the bridge has changed on devices, on disk before it is changed: the next bridge of its name puts it back. */

import { z } from "zod";
import { dropKept, readKept, writeKept } from "../kept-file.ts";
import type { KeptDevice } from "./device.ts";

/** After a longer absence of the bridge nothing plays again by itself, in ms: nobody expects it any more. */
const MAX_ABSENCE_MS = 600_000;

const Kept = z.record(
  z.string(),
  z.object({
    left: z.object({ sessionId: z.string().optional(), isPausedHere: z.boolean() }).optional(),
    volume: z.object({ own: z.number(), orders: z.array(z.number()).max(64) }).optional(),
    /** When it was kept, in ms since 1970. */
    at: z.number(),
  }),
);

export class KeptDevices {
  readonly #path: string;
  readonly #now: () => number;
  readonly #former: z.infer<typeof Kept>;
  #devices: z.infer<typeof Kept>;

  /** @param path the file. What cannot be read counts as empty. */
  constructor(path: string, now: () => number = Date.now) {
    this.#path = path;
    this.#now = now;
    this.#former = readKept(path, Kept.parse) ?? {};
    this.#devices = this.#former;
  }

  /** What an earlier bridge left of a device. */
  of(id: string): KeptDevice | undefined {
    const kept = this.#former[id];
    if (!kept) return undefined;
    const { left, volume, at } = kept;
    const isRecent = Math.abs(this.#now() - at) < MAX_ABSENCE_MS;
    return { volume, left: left && { ...left, isPausedHere: left.isPausedHere && isRecent } };
  }

  /** Undefined: nothing of it is to be put back. On disk when it returns. */
  put(id: string, device: KeptDevice | undefined): void {
    const { [id]: _, ...others } = this.#devices;
    this.#devices = device ? { ...others, [id]: { ...device, at: this.#now() } as (typeof others)[string] } : others;
    if (Object.keys(this.#devices).length === 0) dropKept(this.#path);
    else writeKept(this.#path, this.#devices);
  }

  /** The bridge still runs: what it keeps is as old as its end. */
  touch(): void {
    const ids = Object.keys(this.#devices);
    if (ids.length === 0) return;
    const at = this.#now();
    this.#devices = Object.fromEntries(Object.entries(this.#devices).map(([id, each]) => [id, { ...each, at }]));
    writeKept(this.#path, this.#devices);
  }
}
