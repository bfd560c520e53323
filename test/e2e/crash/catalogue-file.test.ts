import { execFile } from "node:child_process";
import { rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect } from "vitest";
import { type LogLine, makeInstallation } from "../../support/nodes/child-server.ts";
import { testWith } from "../../support/programs/suites.ts";

const run = promisify(execFile);
const OLD = { agents: [{ name: "general" }] };
const adapter = { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: "http://127.0.0.1:9/v1" };
/** The key of one of its agents is missing. */
const NEW = JSON.stringify({
  agents: [{ name: "general" }, { name: "keyless", adapter: { ...adapter, api_key_env: "MISSING_KEY" } }],
});

/** A node, and its catalogue's file, which `replace` replaces. */
async function startNode() {
  const installation = await makeInstallation(OLD);
  const catalogue = join(dirname(installation.file), "agents.yaml");
  const replace = async (text: string) => {
    await writeFile(`${catalogue}.new`, text);
    await rename(`${catalogue}.new`, catalogue);
  };
  return { node: await installation.start(), catalogue, replace };
}

const isFault = ({ msg }: LogLine) => msg.startsWith("the catalogue has faults");
const isReplaced = ({ msg }: LogLine) => msg === "the catalogue was replaced";

testWith(
  ["coreutils"],
  "a named pipe in the catalogue's place is a fault, and delays neither the next catalogue nor the node's end",
  async () => {
    const { node, catalogue, replace } = await startNode();
    const putPipe = async () => {
      await run("mkfifo", [`${catalogue}.pipe`]);
      await rename(`${catalogue}.pipe`, catalogue);
    };
    await putPipe();
    await node.logged(isFault);
    expect(node.stderr).toContain("it is not a regular file");
    await replace(NEW);
    await node.logged(isReplaced);
    await putPipe();
    node.signal("SIGTERM");
    expect(await node.ended).toEqual({ code: 0, signal: null });
  },
);

testWith(
  ["prlimit"],
  "a catalogue that was unreadable for a while is read once it is readable, without a further change, and names its agent without a key",
  async () => {
    const { node, catalogue } = await startNode();
    // No further file: every attempt to open one fails with EMFILE.
    await run("prlimit", ["--pid", String(node.pid), "--nofile=3:"]);
    await writeFile(catalogue, NEW);
    await node.logged(isFault);
    expect(node.stderr).toContain("EMFILE");
    await run("prlimit", ["--pid", String(node.pid), "--nofile=1024:"]);
    await node.logged(isReplaced);
    await node.logged(({ msg }) => msg === "an agent cannot answer");
    expect(node.log).toContainEqual(
      expect.objectContaining({ agentId: "keyless", problem: "the environment variable MISSING_KEY is not set" }),
    );
  },
);
