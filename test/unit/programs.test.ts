import { globSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { findPrograms } from "../support/programs/find-programs.ts";
import {
  choose,
  type Found,
  INSTALL,
  leftOutLine,
  type Need,
  PROGRAMS,
  type Program,
  packagesOf,
  titlesOf,
} from "../support/programs/programs.ts";
import { OWN_POSTGRES, POSTGRES, smallPostgres } from "../support/servers/postgres-server.ts";
import { OWN_REDIS, REDIS, REDIS_PROCESS } from "../support/servers/redis-server.ts";

const root = resolve(import.meta.dirname, "../..");
const ALL = Object.keys(PROGRAMS) as Program[];
const SOUNDS: Program[] = ["mpv", "pulseaudio", "parec", "espeak", "flite", "pocketsphinx"];
const NAMED: Program[] = ["postgres", "redis", "chromium", "firefox", "nginx", "pgbouncer", "promtool"];
/** What is there or missing together. */
const GROUPS: Program[][] = [
  ...NAMED.map((name) => [name]),
  SOUNDS,
  ALL.filter((name) => !NAMED.includes(name) && !SOUNDS.includes(name)),
];
const SUBSETS = Array.from({ length: 2 ** GROUPS.length }, (_, bits) =>
  GROUPS.filter((_, at) => bits & (2 ** at)).flat(),
);
const on = (names: readonly Program[]): Found =>
  Object.fromEntries(names.map((name) => [name, { machine: `/usr/bin/${name}` }]));

/** The needs of every suite, as the tests' sources state them. */
function statedNeeds(): Need[][] {
  const servers: Record<string, Need> = { POSTGRES, OWN_POSTGRES, REDIS, OWN_REDIS, REDIS_PROCESS };
  const lists: string[] = [];
  for (const file of globSync("test/**/*.ts", { cwd: root, exclude: (path) => /node_modules|unit/.test(path) })) {
    const text = readFileSync(join(root, file), "utf8");
    for (const [, list] of text.matchAll(/\b(?:describe|test)With\(\s*\[([^\]]*)\]/g)) lists.push(list!);
    for (const [, list] of text.matchAll(/^const (?:SOUND|DESKTOP) = \[([^\]]*)\]/gm)) lists.push(list!);
  }
  return lists.map((list) =>
    list
      .split(/,(?![^(]*\))/)
      .map((each) => each.trim())
      .filter((each) => each !== "" && !each.startsWith("..."))
      .map((each): Need => {
        if (each.startsWith("smallPostgres")) return smallPostgres(1);
        if (each.startsWith("own ?")) return OWN_POSTGRES;
        return servers[each] ?? { program: JSON.parse(each) as Program, ways: ["machine"] };
      }),
  );
}

test("what is installed are names of Debian's packages", () => {
  expect(packagesOf(ALL).filter((name) => !/^[a-z0-9][a-z0-9.+-]+$/.test(name))).toEqual([]);
});

describe("what a suite does on a machine with some of the programs", () => {
  const suites = statedNeeds();
  /** Each list of needs once. */
  const different = [...new Map(suites.map((needs) => [JSON.stringify(needs), needs])).values()];

  test("every program of the table is needed by a suite, and every suite names programs of the table", () => {
    const needed = new Set(suites.flat().map(({ program }) => program));
    expect([...needed].sort()).toEqual([...ALL].sort());
  });

  test("with every subset of the programs a suite runs if all its programs are there; else it is left out, and fails in CI", () => {
    expect(SUBSETS).toHaveLength(512);
    for (const subset of SUBSETS) {
      const found = on(subset);
      for (const needs of different) {
        const missing = needs.map(({ program }) => program).filter((name) => !subset.includes(name));
        const left = choose(needs, found, false);
        if (missing.length === 0) {
          const ways = needs.map(({ program }) => ({ way: "machine", at: `/usr/bin/${program}` }));
          expect([left, choose(needs, found, true)]).toEqual(Array(2).fill({ act: "run", ways }));
        } else {
          expect([left, choose(needs, found, true)]).toEqual([
            { act: "leave out", missing },
            { act: "fail", missing },
          ]);
        }
      }
    }
  });

  test("with every subset of the programs the last line counts the suites, and names each missing program and the command that installs it", () => {
    for (const subset of SUBSETS) {
      const leftOut = suites.flatMap((needs) => {
        const choice = choose(needs, on(subset), false);
        return choice.act === "run" ? [] : [choice.missing];
      });
      const line = leftOutLine(leftOut);
      const missing = ALL.filter((name) => !subset.includes(name));
      if (missing.length === 0) {
        expect(line).toBeUndefined();
        continue;
      }
      expect(line).toMatch(new RegExp(`^${leftOut.length} suites? (was|were) left out, for want of `));
      expect(line!.endsWith(INSTALL)).toBe(true);
      const counts = titlesOf(ALL).map((title) => leftOut.filter((names) => titlesOf(names).includes(title)).length);
      const named = titlesOf(ALL).filter((title, at) => counts[at]! > 0 && line!.includes(`${title} (${counts[at]})`));
      expect(named).toEqual(titlesOf(missing));
    }
  });
});

test("a server of the environment is preferred, then a container, then a program of this machine, if the suite can use it", () => {
  const every = { url: "redis://named", container: "engine", machine: "/usr/bin/redis-server" };
  const wayOf = (need: Need, redis: object) => {
    const choice = choose([need], { redis }, false);
    return choice.act === "run" ? choice.ways.map(({ way }) => way) : choice.act;
  };
  const { url: _, ...unnamed } = every;
  expect([REDIS, OWN_REDIS, REDIS_PROCESS].map((need) => wayOf(need, every))).toEqual([
    ["url"],
    ["container"],
    ["machine"],
  ]);
  expect(wayOf(REDIS, unnamed)).toEqual(["container"]);
  expect(wayOf(REDIS, { machine: every.machine })).toEqual(["machine"]);
  expect(wayOf(REDIS_PROCESS, { url: every.url, container: every.container })).toBe("leave out");
});

test("a machine with an empty PATH has no program, and TEST_WITHOUT hides programs by name", async () => {
  const nothing = await findPrograms({ PATH: "" });
  const inNpmFolders = ["node20", "outsidePrograms", "realAgents"];
  expect(ALL.filter((name) => !inNpmFolders.includes(name) && Object.keys(nothing[name]!).length > 0)).toEqual([]);
  const named = { PATH: "", TEST_REDIS_URL: "redis://named", TEST_CHROMIUM: "/opt/chromium" };
  expect(await findPrograms(named)).toMatchObject({
    redis: { url: "redis://named" },
    chromium: { machine: "/opt/chromium" },
  });
  expect(await findPrograms({ ...named, TEST_WITHOUT: "redis, chromium" })).not.toHaveProperty("redis");
  expect(await findPrograms({ ...named, TEST_WITHOUT: "all" })).toEqual({});
  await expect(findPrograms({ TEST_WITHOUT: "reddis" })).rejects.toThrow(/^TEST_WITHOUT names "reddis", /);
});

test("Debian's packages are named for the missing programs only", () => {
  expect(packagesOf(["redis", "parec", "pulseaudio", "pocketsphinx", "realAgents"])).toEqual([
    "redis-server",
    "pulseaudio-utils",
    "pulseaudio",
    "pocketsphinx",
    "pocketsphinx-en-us",
  ]);
});
