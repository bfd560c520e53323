import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { describe, expect, test } from "vitest";

/** A row of the dependency table in docs/inside/architecture.md. Names that end with `/` are folders. */
interface Row {
  files: string[];
  mayImport: string[];
  /** Only types of these may be imported. */
  typesOf: string[];
}

const root = resolve(import.meta.dirname, "..");
const ROWS = readRows(readFileSync(join(root, "docs/inside/architecture.md"), "utf8"));

function readRows(page: string): Row[] {
  const section = page.slice(page.indexOf("### Who may import whom"), page.indexOf("### Ports"));
  const rows = section.split("\n").filter((line) => line.startsWith("| `"));
  return rows.map((row) => {
    const [files, mayImport, typesOf] = row
      .split("|")
      .slice(1, 4)
      .map((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name!));
    return { files: files!.map(pathOf), mayImport: mayImport!.map(pathOf), typesOf: typesOf!.map(pathOf) };
  });
}

/** A name of the table as a path of the repository. Names of packages and of Node's modules stay as they are. */
function pathOf(name: string): string {
  const isOurs = /^[a-z].*\/$/.test(name) || name.endsWith(".ts");
  return isOurs && !name.startsWith("page/") ? `src/${name}` : name;
}

/** Whether a name of the table is the file or package, or a folder around it. */
function covers(name: string, path: string): boolean {
  return name === path || (/[/:]$/.test(name) && path.startsWith(name));
}

/** The rows found so far: each file and package is asked about thousands of times. */
const rowOfPath = new Map<string, Row | undefined>();

/** The row of a file: the one that names it most exactly. */
function rowOf(path: string): Row | undefined {
  if (rowOfPath.has(path)) return rowOfPath.get(path);
  const exactness = ({ files }: Row) =>
    Math.max(-1, ...files.filter((name) => covers(name, path)).map(({ length }) => length));
  const row = ROWS.toSorted((one, other) => exactness(other) - exactness(one))[0]!;
  rowOfPath.set(path, exactness(row) < 0 ? undefined : row);
  return rowOfPath.get(path);
}

/** Whether one of the names stands for a file or package. A folder does not stand for files with a row of their own. */
function isNamed(names: readonly string[], path: string): boolean {
  const row = rowOf(path);
  return names.some(
    (name) => covers(name, path) && (name === path || !row || row.files.some((file) => covers(file, name))),
  );
}

interface Import {
  from: string;
  to: string;
  isType: boolean;
}

const IMPORT = /^\s*(?:import|export)\s+(type\s+)?(?:[^"';]*?\sfrom\s+)?"([^"]+)"|\bimport\("([^"]+)"\)/gm;

const DECLARED = /^export (?:async |abstract )*(?:const|let|function\*?|class|interface|type|enum) (\w+)/gm;

function filesUnder(folder: string): string[] {
  const names = readdirSync(folder).filter((name) => name !== "node_modules");
  return names.flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? filesUnder(path) : [path];
  });
}

function importsOf(file: string): Import[] {
  const text = readFileSync(file, "utf8");
  return [...text.matchAll(IMPORT)].map(([, type, named, dynamic]) => {
    const target = (named ?? dynamic)!;
    const to = target.startsWith(".") ? relative(root, resolve(dirname(file), target)) : target;
    return { from: relative(root, file), to, isType: type !== undefined };
  });
}

/** Why an import is not allowed; undefined if it is. */
function objection({ from, to, isType }: Import): string | undefined {
  const row = rowOf(from);
  if (!row) return `${from}: the dependency table has no row for it`;
  if (rowOf(to) === row || isNamed(row.mayImport, to) || (isType && isNamed(row.typesOf, to))) return undefined;
  return `${from} must not import ${to}${isNamed(row.typesOf, to) ? " but for its types" : ""}`;
}

/** Lines of comments over 120 columns. A directive of Biome has to be on one line. */
function longComments(text: string): string[] {
  return text.split("\n").filter((line) => line.length > 120 && /^ *(\/\*|\*|\/\/)(?! biome-ignore)/.test(line));
}

/** Whether a doc comment after the first statement is followed by an empty line: no editor shows such a comment. */
function hasMisplacedComment(text: string): boolean {
  const start = text.search(/^[a-z]/m);
  return start >= 0 && /^\/\*\*(?:(?!\*\/).)*\*\/\n\n/ms.test(text.slice(start));
}

const files = ["src", "page"]
  .flatMap((folder) => filesUnder(join(root, folder)))
  .filter((file) => /\.tsx?$/.test(file));

/** Tests, benchmarks, examples and style sheets too. */
const allFiles = ["src", "page", "test", "bench", "examples", "clients"]
  .flatMap((folder) => filesUnder(join(root, folder)))
  .filter((file) => /\.(tsx?|css)$/.test(file));

describe("the code", () => {
  test("every file has a row of the dependency table, and every import is allowed by it", () => {
    expect(files.length).toBeGreaterThan(80);
    expect(ROWS.length).toBeGreaterThan(15);
    const imports = files.flatMap(importsOf);
    expect(imports.length).toBeGreaterThan(files.length);
    expect(imports.map(objection).filter(Boolean)).toEqual([]);
  });

  test("every entry of the dependency table is needed by an import", () => {
    const imports = files.flatMap(importsOf);
    const unused = ROWS.flatMap((row) => {
      const own = imports.filter(({ from }) => rowOf(from) === row);
      const isUsed = (name: string, some: readonly Import[]) => some.some(({ to }) => isNamed([name], to));
      const types = own.filter(({ isType }) => isType);
      const values = own.filter(({ isType }) => !isType);
      const names = [
        ...row.files.filter((name) => !files.some((file) => covers(name, relative(root, file)))),
        ...row.mayImport.filter((name) => !isUsed(name, values)),
        ...row.typesOf.filter((name) => !isUsed(name, types)),
      ];
      return names.map((name) => `${row.files[0]}: ${name}`);
    });
    expect(unused).toEqual([]);
  });

  test("an import that the dependency table does not name is refused", () => {
    const refused: Import[] = [
      { from: "src/protocol/ids.ts", to: "src/store/store.ts", isType: true },
      { from: "src/actors/session/session-machine.ts", to: "src/store/store.ts", isType: true },
      { from: "src/actors/host/host.ts", to: "src/store/sqlite/sqlite-store.ts", isType: false },
      { from: "src/gateway/gateway.ts", to: "src/actors/host/host.ts", isType: true },
      { from: "src/gateway/gateway.ts", to: "src/copies/copies.ts", isType: true },
      { from: "src/gateway/routes/messages.ts", to: "src/doors/doors.ts", isType: true },
      { from: "src/client/client.ts", to: "src/gateway/gateway.ts", isType: false },
      { from: "src/client/client.ts", to: "page/shell/theme.ts", isType: true },
      { from: "src/gateway/routes/page.ts", to: "page/build/compressed.ts", isType: false },
      { from: "page/main.tsx", to: "src/protocol/event.ts", isType: false },
      { from: "page/main.tsx", to: "page/build/compressed.ts", isType: false },
      { from: "src/somewhere/else.ts", to: "src/protocol/ids.ts", isType: false },
    ];
    for (const each of refused) expect(objection(each), each.from).toBeDefined();
  });

  test("each exported name is declared in one file, so that it means one thing", () => {
    const homes = new Map<string, Set<string>>();
    for (const file of files) {
      for (const [, name] of readFileSync(file, "utf8").matchAll(DECLARED)) {
        homes.set(name!, (homes.get(name!) ?? new Set()).add(relative(root, file)));
      }
    }
    expect(homes.size).toBeGreaterThan(files.length);
    expect([...homes].filter(([, at]) => at.size > 1).map(([name, at]) => [name, ...at])).toEqual([]);
  });

  test("the code uses no clock, randomness or timers where they are passed as arguments", () => {
    const strict = files.filter((file) => /src\/(actors|store|runs|bus|queue|cluster|protocol|shared)\//.test(file));
    const found = strict.flatMap((file) =>
      readFileSync(file, "utf8")
        .split("\n")
        .filter(
          (line) =>
            /\b(Date\.now|Math\.random|setTimeout|setInterval|new Date\(\))/.test(line) && !/^\s*(\*|\/)/.test(line),
        )
        .map((line) => `${relative(root, file)}: ${line.trim()}`),
    );
    expect(found).toEqual([]);
  });

  test("no line of a comment is longer than 120 columns", () => {
    const long = allFiles.flatMap((file) =>
      longComments(readFileSync(file, "utf8")).map((line) => `${relative(root, file)}: ${line}`),
    );
    expect(long).toEqual([]);
    expect(longComments(`/** ${"word ".repeat(30)} */`)).toHaveLength(1);
  });

  test("a comment on a whole file is at its top, not in front of another declaration", () => {
    const misplaced = allFiles.filter((file) => hasMisplacedComment(readFileSync(file, "utf8")));
    expect(misplaced.map((file) => relative(root, file))).toEqual([]);
    expect(hasMisplacedComment('import "./a.ts";\n\n/** About the file. */\n\nexport const b = 1;\n')).toBe(true);
    expect(hasMisplacedComment('/** About the file. */\n\nimport "./a.ts";\n\n/** B. */\nconst b = 1;\n')).toBe(false);
  });

  test("the page and the command line call a node through the client only", () => {
    const speaking = files.filter((file) => {
      const isUser = /^(page|src\/cli|src\/react)\//.test(relative(root, file));
      return isUser && /\b(fetch|EventSource|XMLHttpRequest)\(/.test(readFileSync(file, "utf8"));
    });
    expect(speaking.map((file) => relative(root, file))).toEqual([]);
  });

  test.each([
    ["the thread that writes to SQLite", "src/store/sqlite/writer/writer-main.ts", /^[^.]*$/],
    ["a command's help", "src/cli/main.ts", /^(fastify|yaml|xstate|pino|prom-client|src\/(node|actors|gateway)\b)/],
  ])("%s loads no package that it does not need at its start", (_, entry, refused) => {
    const loaded = loadedBy(entry);
    expect(loaded.size).toBeGreaterThan(5);
    expect([...loaded].filter((each) => !each.startsWith("node:") && refused.test(each))).toEqual([]);
  });

  test("only interlock players loads the library of D-Bus and starts pactl", () => {
    const naming = (text: string) =>
      files
        .filter((file) => file.includes("/src/") && readFileSync(file, "utf8").includes(text))
        .map((file) => relative(root, file));
    expect(naming('import("@jellybrick/dbus-next")')).toEqual(["src/cli/players/session-bus.ts"]);
    expect(naming('from "@jellybrick/dbus-next"')).toEqual([]);
    expect(naming('"pactl"')).toEqual(["src/cli/players/sound-streams.ts"]);
    // The verb itself is loaded when it is called, and the library after that.
    expect([...loadedBy("src/cli/main.ts")].filter((each) => /dbus|cli\/players\//.test(each))).toEqual([]);
    expect([...loadedBy("src/cli/players/run-players.ts")].filter((each) => each.includes("dbus"))).toEqual([]);
  });

  test("only interlock mqtt loads the library of MQTT", () => {
    const naming = files.filter((file) => /(?:from|import\() ?"mqtt"/.test(readFileSync(file, "utf8")));
    expect(naming.map((file) => relative(root, file))).toEqual(["src/cli/mqtt/broker-link.ts"]);
    expect([...loadedBy("src/cli/main.ts")].filter((each) => /^mqtt$|cli\/mqtt\//.test(each))).toEqual([]);
    expect([...loadedBy("src/cli/mqtt/run-mqtt.ts")]).not.toContain("mqtt");
  });

  test("one file loads the library of YAML, so that every text has its bounds of depth and parts before it is parsed", () => {
    const loading = files.filter((file) => /(?:from|import\() ?"yaml"/.test(readFileSync(file, "utf8")));
    expect(loading.map((file) => relative(root, file))).toEqual(["src/config/catalog/yaml-text.ts"]);
  });

  test("benches load nothing that asks vitest for the test that runs", () => {
    const benches = readdirSync(join(root, "bench")).map((name) => `bench/${name}`);
    const loaded = new Set(benches.filter((path) => path.endsWith(".ts")).flatMap((path) => [...loadedBy(path)]));
    const asking = [...loaded].filter(
      (path) => path.startsWith("test/") && /\bvi\./.test(readFileSync(join(root, path), "utf8")),
    );
    expect(loaded).toContain("test/support/desktops/desktop.ts");
    expect(asking).toEqual([]);
  });

  test("no file imports itself through other files", () => {
    const imports = new Map(files.map((file) => [relative(root, file), importsOf(file).map(({ to }) => to)]));
    expect(findCycle(imports)).toBeUndefined();
    expect(
      findCycle(
        new Map([
          ["a", ["b"]],
          ["b", ["c"]],
          ["c", ["b"]],
        ]),
      ),
    ).toEqual(["b", "c", "b"]);
  });
});

/** The files and packages that are loaded when a file starts: its static imports and theirs, without types. */
function loadedBy(entry: string, loaded = new Set<string>()): Set<string> {
  loaded.add(entry);
  const text = readFileSync(join(root, entry), "utf8");
  for (const [, type, named] of text.matchAll(IMPORT)) {
    if (named === undefined || type !== undefined) continue;
    const to = named.startsWith(".") ? relative(root, resolve(dirname(join(root, entry)), named)) : named;
    if (loaded.has(to)) continue;
    if (named.startsWith(".")) loadedBy(to, loaded);
    else loaded.add(to);
  }
  return loaded;
}

/** The first import cycle, as the files along it; undefined when there is none. */
function findCycle(imports: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const done = new Set<string>();
  const visit = (file: string, path: readonly string[]): string[] | undefined => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (done.has(file)) return undefined;
    for (const next of imports.get(file) ?? []) {
      const cycle = visit(next, [...path, file]);
      if (cycle) return cycle;
    }
    done.add(file);
    return undefined;
  };
  for (const file of imports.keys()) {
    const cycle = visit(file, []);
    if (cycle) return cycle;
  }
  return undefined;
}
