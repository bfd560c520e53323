import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { readPage } from "./page.ts";

test.each(["docs/use/car.md", "docs/use/car.zh.md"])("%s shows the example's LiveKit agent unchanged", async (path) => {
  const { text } = readPage(path).blocks.find(({ info }) => info === "ts")!;
  expect(text.trim()).toBe((await readFile("examples/livekit/floor-agent.ts", "utf8")).trim());
});
