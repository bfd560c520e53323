import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { createClient } from "../../src/client/interlock-client.ts";
import { makeFolder } from "../support/stores/sqlite-place.ts";
import { codeOf, readPage, root, tablesOf } from "./page.ts";
import { startShipped } from "./shipped-node.ts";

const execute = promisify(execFile);
const page = readPage("docs/use/client.md");
const programs = page.blocks.filter(({ info }) => info === "ts" || info === "tsx");
/** The page's programs take a token from the application around them. */
const TOKEN = "const token = async () => 'a token';\n";

const { folder } = await makeFolder(afterAll);

test("docs/use/client.md lists every method of the client, and no other", () => {
  const [rows] = tablesOf(page, "about", "methods");
  const listed = new Set(rows!.flatMap(([, methods]) => codeOf(methods!)));
  listed.delete("switch_agent");
  expect([...listed].sort()).toEqual(Object.keys(createClient({ baseUrl: "http://127.0.0.1" })).sort());
});

test("docs/use/client.md lists every option of a client, and every field of a view", () => {
  const fieldsOf = (path: string, name: string) => {
    const text = readFileSync(join(root, path), "utf8");
    const [, inside] = new RegExp(`interface ${name}[^{]*\\{([\\s\\S]*?)\\n\\}`).exec(text)!;
    return [...inside!.matchAll(/^ {2}(\w+)\??:/gm)].map(([, field]) => field!);
  };
  const [options] = tablesOf(page, "option of `createClient`", "means");
  expect(options!.flatMap(([names]) => codeOf(names!)).sort()).toEqual(
    fieldsOf("src/client/requester.ts", "ClientOptions").sort(),
  );
  const fields = [
    ...fieldsOf("src/client/live/live.ts", "LiveState"),
    ...fieldsOf("src/client/live/live-session.ts", "SessionLiveView"),
    ...fieldsOf("src/client/live/live-floor.ts", "FloorLiveView"),
    ...fieldsOf("src/client/live/live-floors.ts", "FloorsLiveView"),
    ...fieldsOf("src/client/live/live-connection.ts", "ConnectionView"),
  ];
  expect(fields.length).toBeGreaterThan(15);
  const shown = codeOf(page.prose);
  expect(fields.filter((field) => !shown.includes(field))).toEqual([]);
});

test("the programs of docs/use/client.md compile under strict", async () => {
  for (const [index, { info, text }] of programs.entries()) {
    await writeFile(join(folder, `program-${index}.${info}`), `${info === "ts" ? TOKEN : ""}${text}\nexport {};\n`);
  }
  const paths = {
    "interlock/client": [join(root, "src/client/interlock-client.ts")],
    "interlock/react": [join(root, "src/react/react.ts")],
    react: [join(root, "node_modules/@types/react")],
    "react/*": [join(root, "node_modules/@types/react/*")],
  };
  const compilerOptions = {
    paths,
    types: [join(root, "node_modules/vite/client")],
    incremental: false,
    tsBuildInfoFile: null,
  };
  const config = { extends: join(root, "page/tsconfig.json"), compilerOptions, include: ["program-*"], exclude: [] };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
  const compiler = join(root, "node_modules/typescript/bin/tsc");
  const compiled = execute(process.execPath, [compiler, "-p", folder, "--listFilesOnly"]);
  expect((await compiled).stdout).toContain("program-1.tsx");
  const { stdout } = await execute(process.execPath, [compiler, "-p", folder]).catch((failure) => failure);
  expect(stdout).toBe("");
});

test("the commands of docs/use/client.md run", async () => {
  const url = await startShipped("agents_config.yaml", onTestFinished);
  const text = programs[0]!.text
    .replace("https://floors.example.com", url)
    .replace('"interlock/client"', JSON.stringify(pathToFileURL(join(root, "src/client/interlock-client.ts")).href));
  await writeFile(join(folder, "commands.mts"), TOKEN + text);
  await execute(process.execPath, [join(folder, "commands.mts")], { cwd: root });
  const { sessions } = (await (await fetch(`${url}/session/list`)).json()) as { sessions: object[] };
  expect(sessions).toMatchObject([{ agentId: "general", state: "active", title: "Do I need an umbrella?" }]);
});
