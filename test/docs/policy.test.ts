import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { runHere } from "../support/clients/command-line.ts";
import { accepted } from "../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../support/nodes/node-under-test.ts";
import { root } from "./page.ts";

/** `npm run docs:policy` writes the outputs instead of comparing them. */
const IS_WRITING = process.env["WRITE_OUTPUTS"] === "true";
const PAGES = ["docs/use/policy.md", "docs/use/policy.zh.md"].filter((path) => existsSync(join(root, path)));
/** A block with one command, and what it prints. */
const SHOWN = /```console\n\$ interlock ([^\n]*)\n([\s\S]*?)```/g;

/** A node with the shipped catalogue, whose music a call has silenced. */
const node = await NodeUnderTest.start({ settings: { INTERLOCK_CONFIG: join(root, "config/agents_config.yaml") } });
afterAll(() => node.stop());
const ann = { userId: "ann", activate: true, locale: "en" };
for (const [id, agentId] of Object.entries({ music: "music_agent", call: "phone_agent" })) {
  await accepted(node.post("/session/create", { ...ann, id, agentId }));
}

/** The pages of both languages show the same commands. */
const outputs: Record<string, Promise<string>> = {};

/**
 * What a command prints; in the story of the node, every event happens at eight. The pages leave out the catalogue's
 * hash, which changes with each key that is added, and what a proof says of its progress.
 */
async function runCommand(args: string): Promise<string> {
  const isStory = args.startsWith("why ");
  const { stdout, stderr } = await runHere([...args.split(" "), ...(isStory ? ["--url", node.url] : [])], root);
  return isStory
    ? stdout.replace(/^\d\d:\d\d:\d\d /gm, "08:00:00 ")
    : (stdout + stderr).replace(/^still exploring .*\n/gm, "").replace(/hash [0-9a-f]{12}$/gm, "hash …");
}

describe.each(PAGES)("%s", (path) => {
  const text = readFileSync(join(root, path), "utf8");
  test("shows the script that it plays", () => {
    const [, script, path] = /```yaml script\n([\s\S]*?)```\n\n```console\n\$ interlock simulate (\S+)/.exec(text)!;
    // The file begins with a comment that says how to play it.
    expect(readFileSync(join(root, path!), "utf8").replace(/^#.*\n/, "")).toBe(script);
  });

  const blocks = [...text.matchAll(SHOWN)].map(([, args, output]) => ({ args: args!, output: output! }));

  test.each(blocks)("shows what interlock $args prints", async ({ args, output }) => {
    outputs[args] ??= runCommand(args);
    const printed = await outputs[args];
    if (!IS_WRITING) return expect(output).toBe(printed);
    const page = readFileSync(join(root, path), "utf8");
    writeFileSync(
      join(root, path),
      page.replace(`$ interlock ${args}\n${output}`, () => `$ interlock ${args}\n${printed}`),
    );
  });
});
