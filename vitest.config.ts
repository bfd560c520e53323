import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { findPrograms } from "./test/support/programs/find-programs.ts";
import { Chance } from "./test/support/runner/chance.ts";
import { EndOfRun } from "./test/support/runner/end-of-run.ts";
import { PATIENCE_MS } from "./test/support/runner/patience.ts";

// Programs that tests start, and threads of the store, find their code compiled. Node.js compares it with the source.
process.env["NODE_COMPILE_CACHE"] ??= fileURLToPath(new URL("node_modules/.cache/compile", import.meta.url));

/** `TEST_ORDER`: the files are shuffled by this seed, as `npm run flakes` does. */
const ORDER = process.env["TEST_ORDER"];
/** What takes long begins first, so that no core is idle at the end. */
const LONG = [
  ...["/client/browsers", "/acp-agent", "/command-agent", "/every-", "/simulation/"],
  ...["/real-agents/", "/deploy/", "/cluster/", "/page/", "/attacks/"],
];
/** What mostly waits, longest first: these files are spread between others that compute. */
const WAITING = [
  ...["/players/", "/postgres-contract", "/car.", "/failed-start", "/client/python", "/chat-example", "/drive."],
  ...["/live-views", "/crash/programs", "/agent-switches", "/external-players", "/mqtt/", "/chat.", "/inspect."],
  ...["/healing.", "/event-source."],
];

/**
 * Files with processes of their own first, and the files of a project that shares its processes together: a process is
 * only used again for the next file in line.
 */
class BusyCores extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = ORDER === undefined ? await super.sort(files) : shuffled(files, Number(ORDER));
    const groups = Map.groupBy(sorted, ({ project }) => (project.config.isolate ? "" : project.name));
    return [...groups.keys()].sort().flatMap((name) => {
      const group = groups.get(name)!;
      if (ORDER !== undefined) return group;
      return name === "" ? group.toSorted(byPlaceIn(LONG)) : spread(group);
    });
  }
}

function placeIn(parts: readonly string[], { moduleId }: TestSpecification): number {
  const index = parts.findIndex((part) => moduleId.includes(part));
  return index < 0 ? parts.length : index;
}

const byPlaceIn = (parts: readonly string[]) => (one: TestSpecification, other: TestSpecification) =>
  placeIn(parts, one) - placeIn(parts, other);

/** Those that wait, at equal distances among the first two thirds of the others. */
function spread(files: readonly TestSpecification[]): TestSpecification[] {
  const waits = (file: TestSpecification) => placeIn(WAITING, file) < WAITING.length;
  const waiting = files.filter(waits).sort(byPlaceIn(WAITING));
  const others = files.filter((file) => !waits(file));
  const gap = (others.length * 2) / (3 * waiting.length);
  const places = new Map<TestSpecification, number>();
  for (const [index, file] of others.entries()) places.set(file, index);
  for (const [index, file] of waiting.entries()) places.set(file, index * gap - 0.5);
  return files.toSorted((one, other) => places.get(one)! - places.get(other)!);
}

function shuffled(files: readonly TestSpecification[], seed: number): TestSpecification[] {
  const chance = new Chance(seed);
  const nameOf = ({ moduleId, project }: TestSpecification) => `${project.name} ${moduleId}`;
  const left = files.toSorted((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1));
  return files.map(() => left.splice(chance.below(left.length), 1)[0]!);
}

/**
 * Tests that start real processes get another try, two on a shared CI machine. A fault that stays fails every try, and
 * the end of the run names each test that was tried again. `TEST_RETRIES` is the number of tries after the first.
 */
const IS_CI = process.env["CI"] === "true";
const RETRIES = Number(process.env["TEST_RETRIES"] ?? (IS_CI ? 2 : 1));
/** `TEST_SECOND_TRY=true`: each test fails once at first, which shows whether a second try can pass. */
const fails = process.env["TEST_SECOND_TRY"] === "true";
const retry = fails ? 1 : RETRIES;

/** Their files run one after another in a few processes, which saves loading the same modules for each of them. */
const SHARING = { isolate: false, restoreMocks: true, unstubEnvs: true };
/** Files that talk to stores, or to nodes in their own process or another, and leave nothing in it. */
const TALKING = [
  "test/contract/**/*.test.ts",
  "test/docs/**/*.test.ts",
  "test/e2e/*.test.ts",
  "test/unit/failed-start.test.ts",
  ...["client", "contract", "crash", "doors", "minds", "mqtt", "page", "players", "streams", "watching"].map(
    (name) => `test/e2e/${name}/**/*.test.ts`,
  ),
];
/**
 * Unit tests with processes of their own: they start programs by the dozen, need some that may be missing, measure the
 * memory of their own process, or replace modules for themselves.
 */
const PROGRAM_TESTS = [
  ...["acp/*", "programs/*", "mcp-*", "reply-memory"].map((name) => `test/unit/agents/${name}.test.ts`),
  "test/unit/bus/message-pieces.test.ts",
  ...["every-floor", "invariants.property"].map((name) => `test/unit/actors/${name}.test.ts`),
  "test/unit/{end-of-run,flakes,own-programs}.test.ts",
  "test/unit/deploy/compose.test.ts",
];
/** Tests that may start nodes as processes. */
const NODES = { globalSetup: "test/support/nodes/built-node.ts" };
/**
 * Minutes of real processes: whole clusters, a standby that is promoted, packages, proxies, coding agents, attacks, the
 * client in several browsers, a page whose server or sign-in is gone, its sessions, keys, touch, sheets, copies,
 * deletions and policies, each view in each theme, language and size; large floors explored to their end; planted
 * faults of moves and time, and stories on a node. `npm run test:long` runs them, `npm test` the rest, and CI both.
 */
const LONG_TESTS = [
  "test/contract/postgres/postgres-promoted.test.ts",
  "test/docs/several-nodes.test.ts",
  "test/e2e/attacks/**/*.test.ts",
  "test/e2e/client/browsers.test.ts",
  "test/e2e/cluster/**/*.test.ts",
  "test/e2e/deploy/**/*.test.ts",
  "test/e2e/left-programs.test.ts",
  "test/e2e/page/copies.test.ts",
  "test/e2e/page/deletion.test.ts",
  "test/e2e/page/keys.test.ts",
  "test/e2e/page/looks.test.ts",
  "test/e2e/page/policy.test.ts",
  "test/e2e/page/resilience.test.ts",
  "test/e2e/page/session.test.ts",
  "test/e2e/page/sheets.test.ts",
  "test/e2e/page/sign-in-ends.test.ts",
  "test/e2e/page/touch.test.ts",
  "test/e2e/real-agents/**/*.test.ts",
  "test/e2e/watching/several-nodes.test.ts",
  "test/simulation/policy/planted-time.test.ts",
  "test/simulation/policy/stories-on-a-node.test.ts",
  "test/unit/actors/every-large-floor.test.ts",
];
/** Suites of one node in `npm test`, and of a whole cluster in `npm run test:long`. */
const DEPLOYMENT_TESTS = "test/e2e/minds/**/*.test.ts";
/** Measures how long a node's answers take, so that no other test may run beside it. */
const ALONE = ["test/e2e/attacks/all-attacks.test.ts"];
export default defineConfig({
  test: {
    // Once per run, and no server is started for it.
    provide: { found: await findPrograms() },
    // Not `setImmediate`: what a node in this process leaves for the next turn of the loop would never happen.
    fakeTimers: { toFake: ["Date", "performance", "setTimeout", "clearTimeout", "setInterval", "clearInterval"] },
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: ["test/*.test.ts", "test/unit/**/*.test.ts"],
          exclude: [...TALKING, ...PROGRAM_TESTS, ...LONG_TESTS],
          ...SHARING,
        },
      },
      { extends: true, test: { name: "programs", include: PROGRAM_TESTS, retry } },
      {
        extends: true,
        test: {
          name: "simulation",
          include: ["test/simulation/**/*.test.ts"],
          exclude: LONG_TESTS,
          testTimeout: 300_000,
        },
      },
      {
        extends: true,
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.test.ts", "test/faults/**/*.test.ts"],
          exclude: [...TALKING, ...LONG_TESTS, ...ALONE],
          retry,
          ...NODES,
        },
      },
      {
        extends: true,
        test: {
          name: "long",
          include: [...LONG_TESTS, DEPLOYMENT_TESTS],
          exclude: ALONE,
          provide: { deployment: "scaled out" },
          retry,
          ...NODES,
        },
      },
      { extends: true, test: { name: "alone", include: ALONE, retry, ...NODES, sequence: { groupOrder: 1 } } },
      {
        extends: true,
        test: {
          name: "talking",
          include: TALKING,
          exclude: LONG_TESTS,
          provide: { deployment: "in one process" },
          retry,
          ...NODES,
          ...SHARING,
        },
      },
    ],
    // No test asks how long something takes: these only end what hangs, on a machine that is busy too.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: PATIENCE_MS } },
    pool: "forks",
    reporters: ["default", new EndOfRun(IS_CI)],
    setupFiles: ["test/support/runner/own-programs.ts", ...(fails ? ["test/support/runner/failing-first-try.ts"] : [])],
    sequence: { sequencer: BusyCores },
    // Twice the cores of the machines that check: many tests wait for real processes.
    maxWorkers: 4,
  },
});
