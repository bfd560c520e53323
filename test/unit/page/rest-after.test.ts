import { expect, test } from "vitest";
import { restAfter } from "../../../page/parts/commands/rest-after.ts";

test("a field is empty after its text was sent, but for what was typed since then", () => {
  expect(restAfter("play a song", "play a song")).toBe("");
  expect(restAfter("  play a song \n", "play a song")).toBe("");
  expect(restAfter("play a song and the next one ", "play a song")).toBe("and the next one ");
  expect(restAfter("no, the news", "play a song")).toBe("no, the news");
  expect(restAfter("", "play a song")).toBe("");
});
