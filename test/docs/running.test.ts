import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, expect, test } from "vitest";
import { OpenApiDocument } from "../support/documents/openapi-document.ts";
import { makeFolder } from "../support/stores/sqlite-place.ts";
import { codeOf, mentions, readPage, root, tablesOf } from "./page.ts";
import { startShipped } from "./shipped-node.ts";
import { difference, expectShown, SHOWN_URL } from "./shown.ts";

const { folder, remove } = await makeFolder();
const closing: (() => unknown)[] = [remove];
afterAll(async () => {
  for (const close of closing.reverse()) await close();
});

/** A node with the shipped catalogue, as `npm start` runs it. */
const startNode = () => startShipped("agents_config.yaml", (stop) => closing.push(stop));

test.each(["README.md", "docs/use/guide-agents.md"])("the commands of %s answer as shown", async (path) => {
  expect(await expectShown(readPage(path), await startNode())).toBeGreaterThan(4);
});

test("the comparison of shown and real output finds differences", () => {
  expect(difference({ a: "…", b: [{ c: 1 }] }, { a: 7, b: [{ c: 1, d: 2 }, 3], e: 4 })).toBeUndefined();
  expect(difference({ a: "…" }, {})).toBe("answer.a is missing");
  expect(difference({ b: [{ c: 1 }] }, { b: [{ c: 2 }] })).toBe("answer.b.0.c is 2, not 1");
  expect(difference({ paused: [] }, { paused: [1] })).toBe("answer.paused is not empty");
});

/** A schema of the document, behind its reference. */
function schemaOf({ components }: OpenApiDocument, schema: unknown): DocumentedSchema {
  const { $ref } = (schema ?? {}) as { $ref?: string };
  return ($ref === undefined ? (schema ?? {}) : components.schemas[$ref.split("/").at(-1)!]) as DocumentedSchema;
}

interface DocumentedSchema {
  properties?: object;
  required?: string[];
  default?: string | number | boolean;
  minimum?: number;
  maximum?: number;
}

/** The names in the braces that a cell begins with: `{title?, id}`. */
const namesInBraces = (cell: string) =>
  (/^`\{([^}]*)\}`/.exec(cell)?.[1] ?? "").split(",").flatMap((part) => /^\s*(\w+)\??\s*$/.exec(part)?.[1] ?? []);

test("docs/use/protocol.md has every route, with its fields, its defaults, its limits and its answer", async () => {
  const url = await startNode();
  const document = OpenApiDocument.parse(await (await fetch(`${url}/openapi.json`)).json());
  const [rows] = tablesOf(readPage("docs/use/protocol.md"), "route", "body or query", "answer");
  const takenBy = new Map(rows!.map(([route, takes]) => [codeOf(route!)[0]!, takes!]));
  const documented = [...takenBy.keys()];
  /**
   * The answer of a row, or of the row that it refers to: “the same” is the one above it, “as `POST /x`” that route's.
   */
  const answerAt = (index: number): string => {
    const answer = rows![index]![2]!;
    if (answer.startsWith("the same")) return answerAt(index - 1);
    const other = /^as `([^`]+)`/.exec(answer)?.[1];
    return other === undefined ? answer : answerAt(documented.indexOf(other));
  };
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ route: `${method.toUpperCase()} ${path}`, operation })),
  );
  expect(documented.toSorted()).toEqual([...operations.map(({ route }) => route), "GET /openapi.json"].sort());
  for (const { route, operation } of operations) {
    const taken = takenBy.get(route)!;
    const queries = (operation.parameters ?? []).filter((parameter) => parameter.in === "query");
    const body = schemaOf(document, operation.requestBody?.content["application/json"]?.schema);
    const fields = Object.keys(body.properties ?? {}).filter((name) => name !== "commandId");
    const names = [...queries.map(({ name }) => name), ...fields];
    expect(
      names.filter((name) => !mentions(taken, name)),
      route,
    ).toEqual([]);
    if (body.properties) expect(names, route).toEqual(expect.arrayContaining(namesInBraces(taken)));
    for (const { name, schema } of queries) {
      const { default: fallback, minimum, maximum = Number.MAX_SAFE_INTEGER } = schemaOf(document, schema);
      const limits = maximum < Number.MAX_SAFE_INTEGER ? [minimum, maximum] : [];
      for (const value of [fallback, ...limits].filter((each) => each !== undefined)) {
        expect(taken, `${route}: ${name}`).toContain(
          typeof value === "number" ? value.toLocaleString("en") : String(value),
        );
      }
    }
    // The doors answer in the form of their protocols.
    if (operation.tags[0] === "doors") continue;
    const answer = schemaOf(document, operation.responses["200"]?.content?.["application/json"]?.schema);
    // A session's routes share a schema in which the decision is optional.
    const given = Object.keys(answer.properties ?? {}).filter((name) => !["success", "decision"].includes(name));
    expect(
      given.filter((name) => !mentions(answerAt(documented.indexOf(route)), name)),
      `${route} answers`,
    ).toEqual([]);
  }
});

/** A program of a page, run with the paths of a checkout, which its comments name, and otherwise unchanged. */
async function run(name: string, text: string): Promise<ChildProcess> {
  const file = join(folder, `${name}.mts`);
  const inCheckout = text.replace(
    /from "interlock[^"]*"; \/\/ in a checkout: "\.\/(.+)"/,
    (_, path) => `from "${pathToFileURL(join(root, path)).href}";`,
  );
  expect(inCheckout).not.toBe(text);
  await writeFile(file, inCheckout);
  const program = spawn(process.execPath, [file], { cwd: root, stdio: ["ignore", "pipe", "ignore"] });
  closing.push(() => program.kill("SIGKILL"));
  return program;
}

async function textOf({ stdout }: ChildProcess): Promise<string> {
  let text = "";
  for await (const piece of stdout!.setEncoding("utf8")) text += piece;
  return text;
}

test("the programs of README.md run", async () => {
  const [node, client] = readPage("README.md").blocks.filter(({ info }) => info === "ts");
  const server = await run("node", node!.text);
  const [line] = await once(server.stdout!.setEncoding("utf8"), "data");
  const url = String(line).trim();
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);

  const asking = await run("client", client!.text.replace(SHOWN_URL, url));
  // The replies, each once: without the question, and without the pieces of replies.
  expect(await textOf(asking)).toMatch(/^weather_agent [^\n]+\ngeneral [^\n]+\n$/);
  const ended = once(server, "exit");
  server.kill("SIGTERM");
  expect(await ended).toEqual([0, null]);
});
