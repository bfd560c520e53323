import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { describe, expect, test } from "vitest";

/**
 * Who may import whom: the table of docs/architecture.md, executed. The first rule whose `from` matches a file is that
 * file's; an import is allowed when one of `may` matches it. Files no rule names are not allowed to exist.
 */
const PURE_ACTORS =
  "^src/actors/(session|session-[a-z]+|arbiter|arbiter-[a-z]+|arbitration|priority|facts|floor-actors)\\.ts$";

const RULES: { from: string; may: string[]; types?: string[] }[] = [
  { from: "^src/protocol/", may: ["^src/protocol/", "^zod$"] },
  { from: "^src/config/", may: ["^src/config/", "^src/protocol/", "^zod$", "^yaml$", "^node:"] },
  { from: "^src/store/postgres", may: ["^src/store/(?!sqlite)", "^src/protocol/", "^node:", "^pg$"] },
  { from: "^src/store/", may: ["^src/store/", "^src/protocol/", "^node:"] },
  { from: "^src/bus/", may: ["^src/bus/", "^src/protocol/", "^zod$", "^ioredis$", "^bullmq$"] },
  { from: "^src/client/", may: ["^src/client/", "^src/protocol/", "^eventsource-parser$"] },
  {
    from: "^src/agents/",
    may: [
      "^src/agents/",
      "^src/protocol/",
      "^src/config/(catalog|adapter)\\.ts$",
      "^ai$",
      "^@ai-sdk/",
      "^zod$",
      "^node:",
    ],
  },
  { from: PURE_ACTORS, may: [PURE_ACTORS, "^src/protocol/", "^src/config/catalog\\.ts$", "^xstate$"] },
  {
    from: "^src/actors/",
    may: ["^src/actors/", "^src/protocol/"],
    types: ["^src/config/catalog\\.ts$", "^src/store/store\\.ts$", "^src/bus/(bus|run-queue)\\.ts$"],
  },
  {
    from: "^src/runs/",
    may: ["^src/runs/", "^src/protocol/"],
    types: ["^src/agents/(agent|registry)\\.ts$", "^src/bus/(bus|run-queue|mailbox)\\.ts$", "^src/store/store\\.ts$"],
  },
  {
    from: "^src/gateway/",
    may: [
      "^src/gateway/",
      "^src/protocol/",
      "^src/config/",
      "^fastify$",
      "^@fastify/",
      "^fastify-type-provider-zod$",
      "^jose$",
      "^zod$",
      "^node:",
    ],
    types: ["^src/bus/(bus|mailbox|tickets)\\.ts$", "^src/store/store\\.ts$"],
  },
  {
    from: "^src/cli/",
    may: ["^src/cli/", "^src/app\\.ts$", "^src/config/", "^src/client/", "^src/protocol/", "^src/actors/", "^node:"],
  },
  {
    from: "^src/tracing\\.ts$",
    may: ["^src/protocol/", "^src/config/traces\\.ts$", "^@opentelemetry/"],
  },
  {
    from: "^src/(app|shape|orchestrator|new-id|index|clock|log|metrics)\\.ts$",
    may: ["^src/(?!cli/|client/|inspector/)", "^pino", "^prom-client$", "^node:"],
  },
];

interface Import {
  from: string;
  to: string;
  isType: boolean;
}

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

/** Why an import is not allowed, if it is not. */
function objection({ from, to, isType }: Import): string | undefined {
  const rule = RULES.find((each) => new RegExp(each.from).test(from));
  if (!rule) return `${from}: no room is known for it`;
  if (matches(rule.may, to) || (isType && matches(rule.types ?? [], to))) return undefined;
  return `${from} must not import ${to}${matches(rule.types ?? [], to) ? " but for its types" : ""}`;
}

const files = filesUnder(join(root, "src")).filter((file) => /\.tsx?$/.test(file));

describe("the house", () => {
  test("has a room for every file, and every arrow is one of the table", () => {
    expect(files.length).toBeGreaterThan(80);
    const imports = files.flatMap(importsOf);
    expect(imports.length).toBeGreaterThan(files.length);
    expect(imports.map(objection).filter(Boolean)).toEqual([]);
  });

  test("refuses what the table does not have", () => {
    const refused: Import[] = [
      { from: "src/protocol/ids.ts", to: "src/store/store.ts", isType: true },
      { from: "src/actors/session.ts", to: "src/store/store.ts", isType: true },
      { from: "src/actors/host.ts", to: "src/store/sqlite.ts", isType: false },
      { from: "src/gateway/app.ts", to: "src/actors/host.ts", isType: true },
      { from: "src/client/client.ts", to: "src/gateway/app.ts", isType: false },
      { from: "src/somewhere/else.ts", to: "src/protocol/ids.ts", isType: false },
    ];
    for (const each of refused) expect(objection(each), each.from).toBeDefined();
  });

  test("has no clock, no chance and no timers where they are arguments", () => {
    const strict = files.filter((file) => /src\/(actors|store|runs|bus|protocol)\//.test(file));
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

  test("keeps its files short enough to be read at once", () => {
    const long = files.filter((file) => readFileSync(file, "utf8").split("\n").length > 400);
    expect(long.map((file) => relative(root, file))).toEqual([]);
  });
});
