import { describe, expect, test } from "vitest";
import { PROFILES, programOf } from "../../../src/agents/acp/profiles.ts";
import { Adapter } from "../../../src/config/catalog/adapter.ts";
import { codeOf, mentions, readPage, tablesOf } from "../../docs/page.ts";

const entry = (keys: object) => {
  const adapter = Adapter.parse({ kind: "acp", ...keys });
  if (adapter.kind !== "acp") throw new Error("not a coding agent");
  return adapter;
};

describe("the program of a coding agent", () => {
  test.each([
    ["claude-code-glm", "https://open.bigmodel.cn/api/anthropic"],
    ["claude-code-kimi", "https://api.moonshot.cn/anthropic"],
    ["claude-code-minimax", "https://api.minimaxi.com/anthropic"],
  ])("the program of %s is Claude Code with that back end", (profile, url) => {
    const program = programOf(entry({ profile }));
    const claude = programOf(entry({ profile: "claude-code" }));
    expect(program).toEqual({ ...claude, set: { ...claude.set, ANTHROPIC_BASE_URL: url } });
  });

  test("an entry's own command, arguments and variables take precedence over its profile's", () => {
    const own = { command: "my-claude", args: ["--acp"], set: { CLAUDE_CODE_MAX_RETRIES: "3" } };
    const program = programOf(entry({ profile: "claude-code", ...own }));
    expect(program).toMatchObject({ command: "my-claude", args: ["--acp"] });
    expect(program.set).toEqual({ CLAUDE_CODE_MAX_RETRIES: "3", ENABLE_TOOL_SEARCH: "false" });
  });

  test("the mode of codex is a variable, and that of the entry counts", () => {
    expect(programOf(entry({ profile: "codex" })).set).toEqual({ INITIAL_AGENT_MODE: "workspace-write" });
    expect(programOf(entry({ profile: "codex", mode: "read-only" })).set).toEqual({ INITIAL_AGENT_MODE: "read-only" });
  });
});

test("docs/use/agents-acp.md lists every profile, its program and its variables", () => {
  const [rows] = tablesOf(readPage("docs/use/agents-acp.md"), "`profile`");
  const described = new Map<string, string>();
  let above = "";
  for (const [names, program, , variables] of rows!) {
    // “the same” refers to the row above.
    above = /the same/.test(program!) ? `${above} ${variables!}` : `${program!} ${variables!}`;
    for (const name of codeOf(names!)) described.set(name, above);
  }
  expect([...described.keys()]).toEqual(Object.keys(PROFILES));
  for (const [name, { command, args, set = {}, random = [], modeVariable }] of Object.entries(PROFILES)) {
    const words = [command, ...args, ...Object.keys(set), ...random, ...(modeVariable ? [modeVariable] : [])].filter(
      Boolean,
    );
    expect(
      words.filter((word) => !mentions(described.get(name)!, word)),
      name,
    ).toEqual([]);
  }
});
