import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { describe, expect, test } from "vitest";

/**
 * The dependency table of docs/architecture.md. The first rule whose `from` matches a file applies to it; an import is
 * allowed when one of `may` matches it. A file that matches no rule is an error.
 */
const PURE_ACTORS =
  "^src/actors/((floor|session|machine)/[a-z-]+|facts|host/(floor-actors|session-machine-state|owner-check))\\.ts$";

const RULES: { from: string; may: string[]; types?: string[] }[] = [
  { from: "^src/protocol/", may: ["^src/protocol/", "^zod$"] },
  { from: "^src/shared/", may: ["^node:"] },
  { from: "^src/config/", may: ["^src/config/", "^src/protocol/", "^zod$", "^yaml$", "^re2js$", "^node:"] },
  { from: "^src/store/postgres/", may: ["^src/store/(?!sqlite/)", "^src/protocol/", "^src/shared/", "^node:", "^pg$"] },
  { from: "^src/store/", may: ["^src/store/(?!postgres/)", "^src/protocol/", "^src/shared/", "^node:"] },
  { from: "^src/bus/", may: ["^src/bus/", "^src/protocol/", "^src/shared/", "^zod$", "^ioredis$"] },
  {
    from: "^src/queue/",
    may: [
      "^src/queue/",
      "^src/bus/redis-(address|client)\\.ts$",
      "^src/protocol/",
      "^src/shared/",
      "^bullmq$",
      "^ioredis$",
    ],
    types: ["^src/actors/facts\\.ts$", "^src/bus/bus\\.ts$", "^src/store/store\\.ts$"],
  },
  {
    from: "^src/cluster/",
    may: ["^src/cluster/", "^src/bus/", "^src/protocol/", "^src/shared/", "^zod$", "^ioredis$"],
  },
  { from: "^src/client/", may: ["^src/client/", "^src/protocol/", "^eventsource-parser$"] },
  { from: "^src/react/", may: ["^src/react/", "^src/client/", "^react$"], types: ["^src/protocol/"] },
  {
    from: "^page/(build/|vite\\.config)",
    may: [
      "^page/build/",
      "^page/machine/chart\\.ts$",
      "^src/actors/(machine/machine-chart|floor/arbiter|session/session-machine)\\.ts$",
      "^vite$",
      "^@vitejs/plugin-react$",
      "^elkjs/",
      "^node:",
    ],
  },
  {
    from: "^page/",
    may: [
      "^page/(?!build/)",
      "^src/client/",
      "^src/react/",
      "^react$",
      "^react-dom/client$",
      "^marked$",
      "^remend$",
      "^virtual:charts$",
    ],
    types: ["^src/protocol/"],
  },
  {
    from: "^src/agents/",
    may: [
      "^src/agents/",
      "^src/protocol/",
      "^src/shared/",
      "^src/config/catalog/(catalog|adapter|tool-entry)\\.ts$",
      "^@agentclientprotocol/sdk$",
      "^@modelcontextprotocol/server$",
      "^eventsource-parser$",
      "^ai$",
      "^@ai-sdk/",
      "^zod$",
      "^node:",
    ],
  },
  { from: PURE_ACTORS, may: [PURE_ACTORS, "^src/protocol/", "^src/config/catalog/catalog\\.ts$", "^xstate$"] },
  {
    from: "^src/actors/",
    may: ["^src/actors/", "^src/protocol/"],
    types: [
      "^src/config/catalog/catalog\\.ts$",
      "^src/store/store\\.ts$",
      "^src/bus/bus\\.ts$",
      "^src/queue/(run-queue|armer)\\.ts$",
    ],
  },
  {
    from: "^src/runs/",
    may: ["^src/runs/", "^src/protocol/", "^src/shared/"],
    types: [
      "^src/agents/(agent|registry)\\.ts$",
      "^src/bus/bus\\.ts$",
      "^src/queue/run-queue\\.ts$",
      "^src/cluster/mailbox\\.ts$",
      "^src/store/store\\.ts$",
    ],
  },
  {
    from: "^src/gateway/",
    may: [
      "^src/gateway/",
      "^src/protocol/",
      "^src/shared/",
      "^src/config/",
      "^fastify$",
      "^@fastify/",
      "^fastify-type-provider-zod$",
      "^jose$",
      "^@modelcontextprotocol/server$",
      "^zod$",
      "^node:",
    ],
    types: ["^src/bus/(bus|ticket-store)\\.ts$", "^src/cluster/mailbox\\.ts$", "^src/store/store\\.ts$"],
  },
  {
    from: "^src/cli/",
    may: [
      "^src/cli/",
      "^src/(app|log|version)\\.ts$",
      "^src/agents/registry\\.ts$",
      "^src/config/",
      "^src/client/",
      "^src/protocol/",
      "^src/actors/",
      "^ws$",
      "^node:",
    ],
  },
  {
    from: "^src/tracing\\.ts$",
    may: ["^src/protocol/", "^src/config/traces\\.ts$", "^@opentelemetry/"],
  },
  {
    from: "^src/(app|open-parts|shape|orchestrator|defined-catalog|node-catalog|node-agents|new-id|index|system-clock|database-time|log|line-output|metrics|version)\\.ts$",
    may: ["^src/(?!cli/|client/|react/)", "^pino", "^prom-client$", "^node:"],
  },
];

interface Import {
  from: string;
  to: string;
  isType: boolean;
}

/** The largest number of source files in one folder. */
const MAX_FILES_IN_FOLDER = 16;

const root = resolve(import.meta.dirname, "..");
const IMPORT = /^\s*(?:import|export)\s+(type\s+)?(?:[^"';]*?\sfrom\s+)?"([^"]+)"|\bimport\("([^"]+)"\)/gm;

function filesUnder(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
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

const matches = (patterns: readonly string[], path: string) =>
  patterns.some((pattern) => new RegExp(pattern).test(path));

/** Why an import is not allowed; undefined if it is. */
function objection({ from, to, isType }: Import): string | undefined {
  const rule = RULES.find((each) => new RegExp(each.from).test(from));
  if (!rule) return `${from}: the dependency table has no rule for it`;
  if (matches(rule.may, to) || (isType && matches(rule.types ?? [], to))) return undefined;
  return `${from} must not import ${to}${matches(rule.types ?? [], to) ? " but for its types" : ""}`;
}

const files = ["src", "page"]
  .flatMap((folder) => filesUnder(join(root, folder)))
  .filter((file) => /\.tsx?$/.test(file));

describe("the code", () => {
  test("every file matches a rule of the dependency table, and every import is allowed by it", () => {
    expect(files.length).toBeGreaterThan(80);
    const imports = files.flatMap(importsOf);
    expect(imports.length).toBeGreaterThan(files.length);
    expect(imports.map(objection).filter(Boolean)).toEqual([]);
  });

  test("an import that the dependency table does not name is refused", () => {
    const refused: Import[] = [
      { from: "src/protocol/ids.ts", to: "src/store/store.ts", isType: true },
      { from: "src/actors/session/session-machine.ts", to: "src/store/store.ts", isType: true },
      { from: "src/actors/host/host.ts", to: "src/store/sqlite/sqlite-store.ts", isType: false },
      { from: "src/gateway/gateway.ts", to: "src/actors/host/host.ts", isType: true },
      { from: "src/client/client.ts", to: "src/gateway/gateway.ts", isType: false },
      { from: "src/client/client.ts", to: "page/shell/theme.ts", isType: true },
      { from: "src/gateway/routes/page.ts", to: "page/build/compressed.ts", isType: false },
      { from: "page/main.tsx", to: "src/protocol/event.ts", isType: false },
      { from: "page/main.tsx", to: "page/build/compressed.ts", isType: false },
      { from: "src/somewhere/else.ts", to: "src/protocol/ids.ts", isType: false },
    ];
    for (const each of refused) expect(objection(each), each.from).toBeDefined();
  });

  test("the code uses no clock, randomness or timers where they are passed as arguments", () => {
    const strict = files.filter((file) => /src\/(actors|store|runs|bus|queue|cluster|protocol)\//.test(file));
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

  test("the page and the command line call a node through the client only", () => {
    const speaking = files.filter((file) => {
      const isUser = /^(page|src\/cli|src\/react)\//.test(relative(root, file));
      return isUser && /\b(fetch|EventSource|XMLHttpRequest)\(/.test(readFileSync(file, "utf8"));
    });
    expect(speaking.map((file) => relative(root, file))).toEqual([]);
  });

  test("routes read sessions and floors of a caller through VisibleSessions only", () => {
    const readers = files.filter((file) =>
      /src\/gateway\/(routes\/|doors\/|chat-commands|streams\/connection-stream|commands)/.test(file),
    );
    expect(readers.length).toBeGreaterThan(8);
    const reading = /\b(maySee|whereIs|viewSession|viewFloor|listSessions|listMessages|listLogs|getBlob|loadSession)\b/;
    const found = readers.flatMap((file) =>
      readFileSync(file, "utf8")
        .split("\n")
        .filter((line) => reading.test(line) && !/"epoch" \| "whereIs"|^ *operationId: /.test(line))
        .map((line) => `${relative(root, file)}: ${line.trim()}`),
    );
    expect(found).toEqual([]);
  });

  test.each([
    ["the thread that writes to SQLite", "src/store/sqlite/writer/writer-main.ts", /^[^.]*$/],
    ["a command's help", "src/cli/main.ts", /^(fastify|yaml|xstate|pino|prom-client|src\/(app|actors|gateway)\b)/],
  ])("%s loads no package that it does not need at its start", (_, entry, refused) => {
    const loaded = loadedBy(entry);
    expect(loaded.size).toBeGreaterThan(5);
    expect([...loaded].filter((each) => !each.startsWith("node:") && refused.test(each))).toEqual([]);
  });

  test("no file is longer than 400 lines", () => {
    const long = files.filter((file) => readFileSync(file, "utf8").split("\n").length > 400);
    expect(long.map((file) => relative(root, file))).toEqual([]);
  });

  test("no folder has more files than the limit, and no two files have the same name", () => {
    const sizes = Map.groupBy(files, (file) => relative(root, dirname(file)));
    const crowded = [...sizes].filter(([, inside]) => inside.length > MAX_FILES_IN_FOLDER);
    expect(crowded.map(([folder, inside]) => `${folder}: ${inside.length} files`)).toEqual([]);
    const names = Map.groupBy(files, (file) => basename(file));
    expect([...names].filter(([, inside]) => inside.length > 1).map(([name]) => name)).toEqual([]);
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
