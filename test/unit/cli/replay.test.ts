import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { type ReplayLogsOptions, replayLogs } from "../../../src/cli/replay.ts";
import { writeTemporary } from "../../support/clients/callers.ts";

const EXAMPLES = fileURLToPath(new URL("../../../config/examples/", import.meta.url));
const LOG = `${EXAMPLES}drive-home.json`;
const TEXT = readFileSync(LOG, "utf8");

async function run(paths: readonly string[], options: Partial<ReplayLogsOptions> = {}) {
  let printed = "";
  const failed: string[] = [];
  const out = { write: (piece: string) => (printed += piece) };
  const asked: ReplayLogsOptions = {
    cataloguePath: `${EXAMPLES}calls-first.yaml`,
    formerPaths: [],
    expectations: [],
    refusedLastMs: 30_000,
    format: "text",
    env: {},
    ...options,
  };
  const code = await replayLogs(paths, out, asked, (line) => failed.push(line));
  return { code, printed, failed };
}

describe("interlock replay", () => {
  test("tells each kind of difference in 80 columns, and nothing with the log's own catalogue", async () => {
    const { code, printed, failed } = await run([LOG]);
    expect([code, failed]).toEqual([0, []]);
    expect(printed).toContain("2× phone_agent: rejected (not_interruptible) → granted (preempted)\n");
    expect(printed).toContain("phone_agent was refused: not_interruptible 2×; now: never\n");
    expect(printed.split("\n").filter((line) => [...line].length > 80)).toEqual([]);
    const same = await run([LOG], { cataloguePath: `${EXAMPLES}claims.yaml` });
    expect(same.printed).toContain("\nNothing is otherwise.\n");
  });

  test("adds up the floors of a file with a line for each, and of several files", async () => {
    const twice = await writeTemporary("logs.jsonl", TEXT + TEXT.replace('"u:ann"', '"u:bob"'), onTestFinished);
    const { printed } = await run([LOG, twice]);
    expect(printed).toMatch(/^3 floors, .* 21 requests,/);
    expect(printed).toContain("6× phone_agent: rejected");
  });

  test("reads the file of the page, which has a line for each event", async () => {
    const { events, ...head } = JSON.parse(TEXT) as { events: object[] };
    const opened = JSON.stringify({ ...head, events: [] }).slice(0, -2);
    const page = `${opened}\n${events.map((event) => JSON.stringify(event)).join(",\n")}\n]}\n`;
    const { code, printed } = await run([await writeTemporary("log.json", page, onTestFinished)]);
    expect([code, printed]).toEqual([0, (await run([LOG])).printed]);
  });

  test("expectations make it a test", async () => {
    const held = await run([LOG], { expectations: ["{ agent: phone_agent, rejected: 0 }"] });
    expect([held.code, held.printed]).toEqual([0, expect.stringContaining("The expectation holds.")]);
    const broken = await run([LOG], { expectations: ["{ agent: phone_agent, granted: 2 }"] });
    expect([broken.code, broken.printed]).toEqual([
      1,
      expect.stringContaining("✗ expected phone_agent is granted 2 times; it was 3 times"),
    ]);
    const faulty = await run([LOG], {
      expectations: ["{ agent: fone_agent, rejected: 0 }", "{ agent: phone_agent, refused: 0 }"],
    });
    expect([faulty.code, faulty.printed]).toEqual([1, ""]);
    expect(faulty.failed).toEqual([
      expect.stringContaining("there is no agent fone_agent"),
      expect.stringMatching(/^--expect .*refused/),
    ]);
  });

  test("prints Markdown, and all facts as JSON", async () => {
    const markdown = await run([LOG], { format: "markdown" });
    expect(markdown.printed).toContain("- **2× phone_agent: rejected (not_interruptible) → granted (preempted)**\n");
    expect(markdown.printed).toContain("| `phone_agent` | before | 3 | 1 | 2 |");
    const json = JSON.parse((await run([LOG], { format: "json" })).printed);
    expect(json).toMatchObject({ floors: 1, requests: 7, kinds: [{ agentId: "phone_agent", count: 2 }, {}, {}] });
  });

  test("names what is wrong with a file", async () => {
    const cut = await run([await writeTemporary("cut.json", TEXT.slice(0, -100), onTestFinished)]);
    expect([cut.code, cut.failed]).toEqual([
      1,
      [expect.stringContaining("line 1: it is cut off, or no log of a floor")],
    ]);
    const other = await run([await writeTemporary("other.json", '{"format":"other"}\n', onTestFinished)]);
    expect([other.code, other.failed]).toEqual([
      1,
      [expect.stringContaining("line 1: it is no log of a floor: format")],
    ]);
    const bad = await run([
      await writeTemporary("bad.json", TEXT.replace('"outcome":"granted"', '"outcome":"perhaps"'), onTestFinished),
    ]);
    expect([bad.code, bad.failed]).toEqual([1, [expect.stringMatching(/u:ann event \d+: data\.outcome /)]]);
    const empty = await run([await writeTemporary("empty.json", "", onTestFinished)]);
    expect([empty.code, empty.failed]).toEqual([1, [expect.stringContaining("the file is empty")]]);
    const absent = await run(["/nowhere/log.json"]);
    expect([absent.code, absent.failed]).toEqual([2, ["/nowhere/log.json: there is no such file"]]);
    const catalogue = await run([LOG], { cataloguePath: "/nowhere/new.yaml" });
    expect([catalogue.code, catalogue.failed]).toEqual([2, ["/nowhere/new.yaml: there is no such file"]]);
  });
});
