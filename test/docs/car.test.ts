import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { readPage } from "./page.ts";

test("docs/car.md shows the example's LiveKit agent unchanged", async () => {
  const { text } = readPage("docs/car.md").blocks.find(({ info }) => info === "ts")!;
  expect(text.trim()).toBe((await readFile("examples/livekit/floor-agent.ts", "utf8")).trim());
});
