import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { zh } from "../../page/words/zh.ts";
import { readPage, readPages, root, tablesOf } from "./page.ts";

/** Everything that is written in Chinese: the pages, and the words of the page at `/`. */
const texts = new Map([
  ...readPages()
    .filter(({ path }) => path.endsWith(".zh.md"))
    .map(({ path, prose }): [string, string] => [path, prose]),
  ["page/words", Object.values(zh).join("\n")],
]);

/** Words that mean the same as a word of the glossary. Each term has one word. */
const OTHERS: { readonly [word: string]: RegExp } = {
  发言权: /话语权|说话权/,
  仲裁器: /仲裁者|仲裁员/,
  运维人员: /运维者|运营者|运营人员|操作员/,
  智能体: /代理(?!服务器)/,
  工作节点: /工作者|工人/,
  决定: /裁决|决策(?!记录)/,
  转换: /状态转移|状态变化|状态变更/,
  提供方: /服务商|提供商|供应商/,
  推理: /思考/,
  token: /词元/,
  副本: /拷贝/,
  撤回: /回退|回滚/,
  会话: /会议/,
};

test("the glossary's Chinese words are those of the Chinese pages and of the page", () => {
  const [rows] = tablesOf(readPage("docs/inside/glossary.md"), "term", "meaning", "中文");
  const words = rows!.flatMap(([, , cell]) => cell!.match(/\p{Script=Han}+/gu) ?? []);
  const named = words.filter((word) => !["权利", "地方", "定义"].includes(word));
  expect(named.length).toBeGreaterThan(25);
  expect(named.filter((word) => ![...texts.values()].some((text) => text.includes(word)))).toEqual([]);
});

const COMMENT = /\/\*[\s\S]*?\*\/|\/\/ .*$/gm;
const COMMENT_OR_TEXT = new RegExp(`${COMMENT.source}|"(?:[^"\\\\\\n]|\\\\.)*"`, "gm");
const sources = globSync("{src,page}/**/*.{ts,tsx}", { cwd: root }).map((path) => ({
  path,
  text: readFileSync(join(root, path), "utf8"),
}));
/** The code without comments and texts. */
const code = sources.map(({ text }) => text.replace(COMMENT_OR_TEXT, "")).join("\n");

test("each term of the glossary is a word of the code", () => {
  const [rows] = tablesOf(readPage("docs/inside/glossary.md"), "term", "meaning", "中文");
  const known = code.toLowerCase();
  const isKnown = (cell: string) =>
    [...cell.matchAll(/\*\*(.+?)\*\*(?: \(`(\w+)`\))?/g)].every(([, term, name]) =>
      known.includes((name ?? term!).toLowerCase().replace(/[ '-]|s$/g, "")),
    );
  expect(rows!.map(([cell]) => cell!).filter((cell) => !isKnown(cell))).toEqual([]);
});

/** The words of these files outside comments. */
const wordsOf = (pattern: string) =>
  globSync(pattern, { cwd: root, exclude: ["**/node_modules/**"] }).flatMap(
    (path) => readFileSync(join(root, path), "utf8").replace(COMMENT, "").match(/\w+/g) ?? [],
  );

test("a comment names no function or field that the code lacks", () => {
  const comments = sources.flatMap(
    ({ text }) => text.match(COMMENT_OR_TEXT)?.filter((part) => part.startsWith("/")) ?? [],
  );
  const named = comments.join("\n").matchAll(/`(?:\w+[.#])?#?([a-z][A-Za-z]{3,})(?:\(.*?\))?`/g);
  const names = [...new Set([...named].map(([, name]) => name!))];
  expect(names.length).toBeGreaterThan(100);
  // The last one is XState's.
  const known = new Set([...wordsOf("{src,page,migrations}/**/*.{ts,tsx,sql}"), "getPersistedSnapshot"]);
  expect(names.filter((name) => !known.has(name))).toEqual([]);
});

/** Names of the AI SDK and of browsers, which pages tell their readers to set. */
const OF_OTHERS = ["prepareSendMessagesRequest", "withCredentials"];

test("a page names no function or field that neither the code nor a test has", () => {
  const pages = readPages().filter(({ path }) => path !== "CHANGELOG.md");
  const named = pages.flatMap(({ path, prose }) =>
    [...prose.matchAll(/`(?:\w+[.#])?#?([a-z]+[A-Z]\w*|[A-Za-z]\w*(?=\())(?:\(.*?\))?`/g)].map(([, name]) => ({
      path,
      name: name!,
    })),
  );
  expect(named.length).toBeGreaterThan(300);
  const known = new Set([...wordsOf("{src,page,test,bench,examples,migrations}/**/*.{ts,tsx,sql,cpp}"), ...OF_OTHERS]);
  expect(named.filter(({ name }) => !known.has(name))).toEqual([]);
});

test("the code declares nothing by a word that once had several meanings", () => {
  const former =
    "places?|place(?:Of|In|At)|KnownPlaces|hears?|#hear|told|tells?|tell[A-Z]\\w*|taken?|take[A-Z]\\w*|bye|shape";
  const declared = new RegExp(
    `(?:const|let|function\\*?|class|interface|type|get|async|readonly) #?(?:${former})\\b.*`,
    "g",
  );
  expect(code.match(declared)).toBe(null);
});

/** Former names of things whose word has another meaning in the glossary. */
const FORMER = [
  // A worker claims a run, and a catalogue claims what is proved. A session that competes for a floor is a contender.
  "\\w*(?:Ducked|Queued|stored|reserved|lone|with)Claims?|ClaimOptions",
  // A turn is a user's message and what follows from it. The event loop has iterations.
  "Turn(?:Budget|Pace)|afterNextTurn|inTurns?|TURN_BYTES|onTurn|replayTurn",
  // A directive is the floor's answer to a report.
  "standingAfter|[sS]tandings|LogStanding|onStanding",
  // A floor settles after an event. Promises are resolved, and commands are answered.
  "settle(?:Adapter|AfterTurn|Body|Interaction|Ms)|SettledAdapter|isSettled|settled(?=[:,;]| \\})|SETTLE_MS",
  // A lane is a row of a picture. A notice is a hint in an answer, and a live event is not logged.
  "LANES|(?:Bullmq|new)Lane\\w*|noticeHead|logNotices|isNoticed|onNotice",
  // A slot belongs to a connection. A run, a program or a request has a permit.
  "Binding|NO_BINDINGS|\\w*[iI]nSlots\\w*|slots(?=: Semaphore)",
  // An effect is what a decision does to another session. A run request asks for a worker, a machine takes steps.
  "(?:Run|Player)Effect|EffectId|dueEffects|effects(?:Added|Removed)|effectOf|dropEffect",
  // Rules decide who has the floor.
  "Rules",
  // Sessions are loaded and evicted, and become audible. What the host passes with a command is given.
  "bring(?:Up|Row|Due|Session|sTurn)|heardMs|given(?= = use)",
];

test("the code calls nothing by a word that the glossary keeps for another thing", () => {
  expect(code.match(new RegExp(`(?<!\\w)#?(?:${FORMER.join("|")})(?!\\w)`, "g"))).toBe(null);
});

test.each(Object.entries(OTHERS))("Chinese pages and the page say %s, and no other word for it", (word, other) => {
  const all = [...texts];
  expect(all.some(([, text]) => text.includes(word))).toBe(true);
  expect(
    all.flatMap(([path, text]) => (text.match(new RegExp(other, "g")) ?? []).map((found) => [path, found])),
  ).toEqual([]);
});
