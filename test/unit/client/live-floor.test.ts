import { expect, onTestFinished, test } from "vitest";
import type { Client, StreamOptions } from "../../../src/client/client.ts";
import { LiveFloor } from "../../../src/client/live/live-floor.ts";

test("a floor that changes just after its view was suspended and restarted is read again", async () => {
  let reads = 0;
  const streams: StreamOptions[] = [];
  const client = {
    getFloor: async () => ({ floorId: "u:ann", decisions: [], position: `e.${++reads}` }),
    openFloor: (_: string, options: StreamOptions) => {
      streams.push(options);
      return (async function* () {
        await new Promise((resolve) => options.signal!.addEventListener("abort", resolve));
      })();
    },
  };
  const live = new LiveFloor(client as unknown as Client, "u:ann");
  onTestFinished(live.subscribe(() => {}));
  await expect.poll(() => streams.length).toBe(1);
  streams[0]!.onPosition!("e.7");
  expect(reads).toBe(2);
  live.suspend();
  live.restart();
  await expect.poll(() => streams.length).toBe(2);
  streams[1]!.onPosition!("e.8");
  await expect.poll(() => reads).toBe(3);
});
