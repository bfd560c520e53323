import { existsSync, globSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { anchorOf, type Block, codeOf, mentions, type Page, readPage, readPages, root, tablesOf } from "./page.ts";

const pages = readPages();
const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: object };
const sources = globSync("{src,page,test,bench,examples,migrations}/**/*.{ts,tsx,sql}", {
  cwd: root,
  exclude: ["**/node_modules/**"],
});
/** The sources that a page means by a file's name, by the end of its path, or by a folder. */
const sourcesOf = (path: string) =>
  sources.filter((source) => (path.endsWith("/") ? source.startsWith(path) : `/${source}`.endsWith(`/${path}`)));
/** A source without its comments. */
const codeOfSource = (path: string) =>
  readFileSync(join(root, path), "utf8").replace(/\/\*[\s\S]*?\*\/|\/\/ .*$/gm, "");
/** Pages about the present release. Older entries of the change log name what no longer exists. */
const current = pages.filter(({ path }) => path !== "CHANGELOG.md");

/** Folders of other people's files, of builds, and of a node that ran here. */
const FOREIGN = new Set(["node_modules", "dist", ".git", "data", "coverage"]);

function filesUnder(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path];
  const names = readdirSync(path).filter((name) => !FOREIGN.has(name));
  return names.flatMap((name) => filesUnder(join(path, name)));
}

/** Why a link is broken; undefined if it is not. */
function objection(page: Page, link: string): string | undefined {
  const [path = "", anchor] = link.split("#");
  const target = path === "" ? page.path : relative(root, join(root, dirname(page.path), path));
  if (!existsSync(join(root, target))) return `${page.path}: there is no ${target}`;
  if (anchor === undefined) return undefined;
  const isThere = readPage(target).headings.some(({ text }) => anchorOf(text) === anchor);
  return isThere ? undefined : `${page.path}: ${target} has no heading #${anchor}`;
}

describe("every page", () => {
  test("every link on a page leads to an existing page and heading", () => {
    const links = pages.flatMap((page) =>
      [...page.prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => ({ page, link: link! })),
    );
    const inside = links.filter(({ link }) => !/^https?:/.test(link));
    expect(inside.length).toBeGreaterThan(60);
    expect(inside.map(({ page, link }) => objection(page, link)).filter(Boolean)).toEqual([]);
    expect(objection(readPage("README.md"), "none.md")).toBeDefined();
    expect(objection(readPage("README.md"), "docs/inside/glossary.md#none")).toBeDefined();
  });

  test("every file that a page names exists", () => {
    const named = current.flatMap((page) => codeOf(page.prose).map((code) => ({ path: page.path, code })));
    const paths = named.filter(({ code }) =>
      /^(src|page|test|docs|config|migrations|bench|examples)\/[\w./-]+$/.test(code),
    );
    const files = named.filter(({ code }) => /^([\w-]+\/)*[\w-]+\.(tsx?|sql)$/.test(code));
    const inCommands = current.flatMap(({ path, blocks }) =>
      blocks
        .filter(({ info }) => info === "sh")
        .flatMap(({ text }) => text.match(/\b(?:src|test|config|examples)\/[\w./-]+/g) ?? [])
        .map((code) => ({ path, code })),
    );
    expect(inCommands.length).toBeGreaterThan(15);
    paths.push(...inCommands);
    expect(paths.length).toBeGreaterThan(15);
    // Tables of folders name files relative to src.
    const isThere = (code: string) => existsSync(join(root, code)) || existsSync(join(root, "src", code));
    expect(paths.filter(({ code }) => !isThere(code))).toEqual([]);
    expect(files.length).toBeGreaterThan(100);
    expect(files.filter(({ code }) => sourcesOf(code).length === 0)).toEqual([]);
  });

  test("a page that names a file and something in it is right: “`decide` in `arbitration.ts`”", () => {
    const file = "`((?:[\\w.-]+/)*[\\w.-]+\\.(?:tsx?|sql)|src/[\\w./-]+/)`";
    const name = "`#?([A-Za-z]\\w*)(?:[.#]\\w+)?(?:\\(.*?\\))?`";
    const nameFirst = new RegExp(`${name}\\s(?:in\\s|\\()${file}`, "g");
    const fileFirst = new RegExp(`${file}(?::\\s|’s\\s|'s\\s|\\s\\()${name}`, "g");
    const pairs = current.flatMap(({ path: page, prose }) => [
      ...[...prose.matchAll(nameFirst)].map(([, word, path]) => ({ page, word: word!, path: path! })),
      ...[...prose.matchAll(fileFirst)].map(([, path, word]) => ({ page, word: word!, path: path! })),
    ]);
    expect(pairs.length).toBeGreaterThan(15);
    const isIn = ({ word, path }: (typeof pairs)[number]) =>
      sourcesOf(path).some((source) => mentions(codeOfSource(source), word));
    expect(pairs.filter((pair) => !isIn(pair))).toEqual([]);
  });

  test("every page that code, tests, settings or pages name exists", () => {
    const files = filesUnder(root).filter((file) => !/\.(png|wav|ico|tgz|log)$/.test(file));
    const named = files.flatMap((file) =>
      [...readFileSync(file, "utf8").matchAll(/\bdocs\/[\w./-]*\.md\b/g)].map(([path]) => ({ file, path })),
    );
    expect(named.length).toBeGreaterThan(60);
    expect(
      named
        .filter(({ path }) => !existsSync(join(root, path)))
        .map(({ file, path }) => `${relative(root, file)} names ${path}`),
    ).toEqual([]);
  });

  test("every script that a page names exists", () => {
    const named = pages.flatMap(({ text }) => [...text.matchAll(/npm run ([\w:-]+)/g)].map(([, name]) => name!));
    expect(named.length).toBeGreaterThan(3);
    expect(named.filter((name) => !(name in scripts))).toEqual([]);
  });

  test("no page names a particular machine", () => {
    const places = /(?<![\w.:/])(?:\/(?:home|root|tmp|work|Users|private|mnt)\/|[A-Z]:\\)/;
    expect(pages.filter(({ text }) => places.test(text)).map(({ path }) => path)).toEqual([]);
    expect(places.test("see /home/ann/notes")).toBe(true);
  });

  test("every page has one title, and skips no heading level", () => {
    for (const { path, headings } of pages) {
      expect(headings.filter(({ level }) => level === 1).length, path).toBe(1);
      for (const [index, { level, text }] of headings.entries()) {
        expect(level - (headings[index - 1]?.level ?? 0), `${path}: ${text}`).toBeLessThanOrEqual(1);
      }
    }
  });
});

test("the hops of docs/inside/architecture.md name functions of their files", () => {
  const [hops] = tablesOf(readPage("docs/inside/architecture.md"), "hop", "file", "function");
  const named = hops!.flatMap(([, files, functions]) =>
    codeOf(files!).flatMap((file) => codeOf(functions!).map((name) => ({ file, name }))),
  );
  expect(named.length).toBeGreaterThan(8);
  const isDeclared = ({ file, name }: (typeof named)[number]) =>
    new RegExp(`^ *(export )?(async )?(function )?\\*?${name}\\(`, "m").test(
      readFileSync(join(root, "src", file), "utf8"),
    );
  expect(named.filter((each) => !isDeclared(each))).toEqual([]);
});

test("every ADR has a unique number, and its status is on a page", () => {
  const decisions = pages.filter(({ path }) => path.startsWith("docs/inside/adr/"));
  expect(decisions.map(({ path }) => Number(/\/(\d{4})-/.exec(path)![1]))).toEqual(
    decisions.map((_, index) => index + 1),
  );
  for (const { path, headings, text } of decisions) {
    expect(headings[0]!.text, path).toMatch(new RegExp(`^${Number(/\/(\d{4})-/.exec(path)![1])}\\. `));
    expect(text, path).toMatch(/^Date: .+ Status: (accepted|replaced by .+)\.$/m);
  }
});

test("the program says every sentence that docs/operate/when-things-fail.md quotes", () => {
  const { prose } = readPage("docs/operate/when-things-fail.md");
  const quoted = [...prose.matchAll(/“([^”]+)”/g)].map(([, sentence]) => sentence!.replace(/\s+/g, " "));
  expect(quoted.length).toBeGreaterThan(10);
  const files = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).filter((file) =>
    file.endsWith(".ts"),
  );
  const code = files.map((file) => readFileSync(join(root, "src", file), "utf8"));
  expect(quoted.filter((sentence) => !code.some((text) => text.includes(sentence)))).toEqual([]);
});

/** The parts of a block that two languages must share; undefined for pictures. */
function common({ info, text }: Block): unknown {
  if (info.startsWith("yaml")) return [info, parse(text)];
  if (info === "ts") return [info, text.replace(/ *\/\/ .*$/gm, "")];
  return info === "mermaid" ? [info] : [info, text];
}

test.each([
  ["README.md", "README.zh.md"],
  ["docs/use/guide-agents.md", "docs/use/guide-agents.zh.md"],
  ["docs/use/external-players.md", "docs/use/external-players.zh.md"],
  ["docs/use/cpp.md", "docs/use/cpp.zh.md"],
  ["docs/use/players.md", "docs/use/players.zh.md"],
  ["docs/use/vehicle.md", "docs/use/vehicle.zh.md"],
  ["docs/use/house.md", "docs/use/house.zh.md"],
  ["docs/use/car.md", "docs/use/car.zh.md"],
  ["docs/use/doors.md", "docs/use/doors.zh.md"],
  ["docs/use/policy.md", "docs/use/policy.zh.md"],
  ["docs/operate/first-hour.md", "docs/operate/first-hour.zh.md"],
])("pages in two languages have the same headings and the same commands: %s", (english, chinese) => {
  const [one, other] = [readPage(english), readPage(chinese)];
  expect(other.headings.map(({ level }) => level)).toEqual(one.headings.map(({ level }) => level));
  expect(other.blocks.map(common)).toEqual(one.blocks.map(common));
  const tables = ({ prose }: Page) => (prose.match(/^\|/gm) ?? []).length;
  expect(tables(other)).toBe(tables(one));
  // Each section names the same code, and so mentions the same fields, routes and limits.
  const sections = ({ prose }: Page) =>
    prose
      .replace(/^ +```[\s\S]*?^ +```$/gm, "")
      .split(/^#+ .*$/m)
      .map((text) => [...new Set(codeOf(text).map((code) => code.replace(/\s+/g, " ")))].sort());
  expect(sections(other)).toEqual(sections(one));
});
