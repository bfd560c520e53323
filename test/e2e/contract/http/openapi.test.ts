import { randomUUID } from "node:crypto";
import { copyFile, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { readPage, root } from "../../../docs/page.ts";
import { keyOf, startGuarded } from "../../../support/clients/callers.ts";
import { OUTSIDE_MODULES, runNode, runProgram, testWithPrograms } from "../../../support/documents/outside-programs.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const folder = await mkdtemp(join(tmpdir(), "interlock-openapi-"));
await symlink(OUTSIDE_MODULES, join(folder, "node_modules"), "dir");
const open = await NodeUnderTest.start();
const { node: guarded } = await startGuarded();
afterAll(() => Promise.all([open.stop(), rm(folder, { recursive: true })]));

type Finding = readonly [file: string, rule: string];

/** All errors and warnings of Redocly's recommended rules for these documents. */
async function redocly(files: readonly string[]): Promise<Finding[]> {
  const args = ["lint", ...files, "--extends=recommended", "--format=json", "--max-problems=1000"];
  const { stdout, stderr } = await runProgram("redocly", args, folder);
  if (!stdout.startsWith("{")) throw new Error(`redocly printed no report: ${stdout}${stderr}`);
  // One report for each document, without a separator.
  const reports: { problems: { ruleId: string; location: { source: { ref: string } }[] }[] }[] = JSON.parse(
    `[${stdout.replaceAll(/^\}\{$/gm, "},{")}]`,
  );
  expect(reports).toHaveLength(files.length);
  return reports.flatMap(({ problems }) =>
    problems.map(({ ruleId, location }): Finding => [basename(location[0]!.source.ref), ruleId]),
  );
}

/** All results of Spectral's recommended rules for these documents, including hints. */
async function spectral(files: readonly string[]): Promise<Finding[]> {
  await writeFile(join(folder, "spectral.yaml"), 'extends: ["spectral:oas"]\n');
  const args = ["lint", ...files, "--ruleset=spectral.yaml", "--format=json", "--quiet"];
  const { stdout, stderr } = await runProgram("spectral", args, folder);
  if (!stdout.startsWith("[")) throw new Error(`spectral printed no report: ${stdout}${stderr}`);
  const problems = JSON.parse(stdout) as { code: string; source: string }[];
  return problems.map(({ code, source }): Finding => [basename(source), code]);
}

testWithPrograms(
  "the documents of nodes with and without authentication pass all recommended rules of Redocly and Spectral, which find the faults of a faulty one",
  async () => {
    const { text } = await open.send("GET", "/openapi.json");
    await writeFile(join(folder, "open.json"), text);
    await writeFile(join(folder, "guarded.json"), (await guarded.send("GET", "/openapi.json")).text);
    const broken = JSON.parse(text);
    delete broken.paths["/agents"].get.operationId;
    delete broken.paths["/agents"].get.summary;
    delete broken.paths["/agents"].get.tags;
    delete broken.servers;
    await writeFile(join(folder, "broken.json"), JSON.stringify(broken));
    const files = ["open.json", "guarded.json", "broken.json"];
    const inBroken = (...rules: string[]) => rules.map((rule) => ["broken.json", rule]);
    expect((await redocly(files)).toSorted()).toEqual(
      inBroken("no-empty-servers", "operation-operationId", "operation-summary"),
    );
    expect((await spectral(files)).toSorted()).toEqual(
      inBroken("oas3-api-servers", "operation-operationId", "operation-tags"),
    );
  },
);

const compilerOptions = {
  strict: true,
  target: "es2023",
  module: "nodenext",
  lib: ["es2023", "dom", "dom.iterable", "dom.asynciterable"],
  types: [],
};

/** Generates the types from the node's URL, and compiles clients with them. */
async function compile(node: NodeUnderTest, ...files: string[]): Promise<void> {
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  const generated = await runProgram(
    "openapi-typescript",
    [`${node.url}/openapi.json`, "-o", "interlock.d.ts"],
    folder,
  );
  expect(generated.code, generated.stdout + generated.stderr).toBe(0);
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
  const compiled = await runProgram("tsc", [], folder);
  expect(compiled.stdout).toBe("");
  expect(compiled.code).toBe(0);
}

async function call(module: string, name: string, args: readonly string[]): Promise<unknown> {
  const script = `const { ${name} } = await import("./${module}");
    console.log(JSON.stringify(await ${name}(...process.argv.slice(1))));
    process.exit();`;
  const { stdout, stderr, code } = await runNode(["--input-type=module", "-e", script, ...args], folder);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout);
}

testWithPrograms(
  "the generated client of docs/use/protocol.md compiles under strict, and talks to a node; so does one with keys, bodyless writes, failures, tickets and events of streams",
  async () => {
    const blocks = readPage("docs/use/protocol.md").blocks.filter(({ info }) => info === "ts");
    expect(blocks).toHaveLength(1);
    await writeFile(join(folder, "say.ts"), blocks[0]!.text);
    await copyFile(join(root, "test/outside-programs/client.ts"), join(folder, "client.ts"));
    await compile(guarded, "say.ts", "client.ts");
    expect(await call("say.js", "say", [open.url, "hello"])).toBe("Hello there.");
    const name = randomUUID();
    expect(await call("client.js", "play", [guarded.url, keyOf("ann"), name])).toEqual({
      isSame: true,
      states: ["active", "paused", "active"],
      reason: "floor_free",
      preview: "rejected",
      refused: "forbidden",
      transitions: ["resume", "pause", "activate"],
      isPlaced: true,
      streamed: ["activate", "pause", "resume"],
      deleted: true,
      missing: "session_not_found",
    });
  },
);

test("the programs are pinned, and are no dependencies of Interlock", async () => {
  const { default: outside } = await import("../../../outside-programs/package.json", { with: { type: "json" } });
  const { default: own } = await import("../../../../package.json", { with: { type: "json" } });
  // The outside programs use another version of the compiler, and render a page with React.
  const shared = ["typescript", "react", "react-dom"];
  for (const [name, version] of Object.entries(outside.dependencies)) {
    expect(version, name).toMatch(/^\d+\.\d+\.\d+$/);
    if (!shared.includes(name)) expect({ ...own.dependencies, ...own.devDependencies }).not.toHaveProperty([name]);
  }
});
