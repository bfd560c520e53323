import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { readPage } from "./page.ts";

test.each(["docs/use/car.md", "docs/use/car.zh.md"])("%s shows the example's LiveKit agent unchanged", async (path) => {
  const { text } = readPage(path).blocks.find(({ info }) => info === "ts")!;
  expect(text.trim()).toBe((await readFile("examples/livekit/floor-agent.ts", "utf8")).trim());
});

test.each(["docs/use/cpp.md", "docs/use/cpp.zh.md"])("%s quotes the player in C++ as it is", async (path) => {
  const source = await readFile("examples/cpp-player/player.cpp", "utf8");
  const quotes = readPage(path).blocks.filter(({ info }) => info === "cpp");
  expect(quotes.length).toBeGreaterThan(6);
  expect(quotes.filter(({ text }) => !source.includes(text))).toEqual([]);
});
