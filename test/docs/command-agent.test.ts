import { expect, test } from "vitest";
import { readCatalog } from "../../src/config/catalog/catalog-file.ts";
import { programSubject } from "../support/agents/programs.ts";
import { play, textOf, turnOf } from "../support/agents/run-stage.ts";
import { readPage } from "./page.ts";

test("the whole agent on docs/use/agents-command.md answers a turn", async () => {
  const { text } = readPage("docs/use/agents-command.md").blocks.find(({ info }) => info === "yaml agent")!;
  const reading = readCatalog(`agents:\n${text.replace(/^/gm, "  ")}`);
  if (!reading.ok) throw new Error("the page shows no catalogue");
  const { adapter } = reading.catalog.agents.get("counter")!;
  const subject = programSubject(
    {},
    { ...adapter, command: process.execPath, start_timeout: "1m", silence_timeout: "1m" },
  );
  try {
    const parts = await play(subject.agent, turnOf("one two three"));
    expect(textOf(parts)).toBe("The message has 3 words.");
    expect(parts).toContainEqual({
      type: "usage",
      usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
    });
  } finally {
    await subject.close();
  }
});
