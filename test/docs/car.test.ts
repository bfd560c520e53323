import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { readPage } from "./page.ts";

test.each(["docs/use/car.md", "docs/use/car.zh.md"])("%s shows the example's LiveKit agent unchanged", async (path) => {
  const { text } = readPage(path).blocks.find(({ info }) => info === "ts")!;
  expect(text.trim()).toBe((await readFile("examples/livekit/floor-agent.ts", "utf8")).trim());
});

const CODE_LINES = { "docs/use/cpp.md": "lines of code", "docs/use/cpp.zh.md": "行代码" } as const;

test.each(["docs/use/cpp.md", "docs/use/cpp.zh.md"] as const)(
  "%s quotes the player in C++ as it is, and tells its length",
  async (path) => {
    const source = await readFile("examples/cpp-player/player.cpp", "utf8");
    const quotes = readPage(path).blocks.filter(({ info }) => info === "cpp");
    expect(quotes.length).toBeGreaterThan(6);
    expect(quotes.filter(({ text }) => !source.includes(text))).toEqual([]);
    const lines = source.split("\n").filter((line) => line.trim() !== "" && !/^\s*(\/\/|\/\*|\*)/.test(line));
    expect(await readFile(path, "utf8")).toContain(`${Math.round(lines.length / 10) * 10} ${CODE_LINES[path]}`);
  },
);
