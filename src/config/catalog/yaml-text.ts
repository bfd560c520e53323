import {
  type Alias,
  Composer,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  type Node,
  type Pair,
  Parser,
  visit,
  type YAMLError,
  type YAMLMap,
  YAMLParseError,
} from "yaml";
import { describePath, type Fault, MAX_FAULTS, quote } from "../fault.ts";

/** A parsed YAML document with the positions of its nodes. */
export interface YamlText {
  /** Its faults of YAML syntax, unordered. */
  readonly faults: readonly Fault[];
  /** Its value; undefined if its size, its nesting or aliases make it unreadable. */
  readonly value: unknown;
  /**
   * Create a fault for the node at a path. Undefined if a syntax fault precedes the end of that node: its value is then
   * a guess, and the fault would mislead.
   */
  faultAt(path: readonly PropertyKey[], on: "key" | "value", message: string): Fault | undefined;
}

/** The maximum nesting of maps and lists. The catalogue needs 8; `arguments` of a scripted tool may need more. */
const MAX_YAML_DEPTH = 64;
/**
 * The maximum number of words, signs, spaces and line ends: ten thousand keys, or steps of a script. Reading them takes
 * seconds at worst.
 */
const MAX_TOKENS = 400_000;
/** The maximum number of expanded aliases if any are nested, and so multiply: more indicates an expansion attack. */
const MAX_ALIASES = 100;
/** The maximum number of values that aliases repeat: a hundred for each of a thousand agents. */
const MAX_REPEATED = 100_000;

/** Faults after which the rest of the text is parsed correctly. */
const HARMLESS = new Set(["TAG_RESOLVE_FAILED", "MULTIPLE_DOCS"]);
/** Further faults would not be reported, and locating each one costs a walk through the document. */
const ENOUGH = MAX_FAULTS + 1;

/** Read a text as one YAML 1.2 document. Never throws. */
export function readYaml(text: string): YamlText {
  const lineColumnOf = locator(text);
  const makeFault = (offset: number, path: readonly PropertyKey[], message: string): Fault => {
    return { ...lineColumnOf(offset), path: describePath(path), message };
  };
  const document = parse(text);
  if ("excess" in document) {
    return { faults: [makeFault(document.offset, [], document.excess)], value: undefined, faultAt: () => undefined };
  }
  const root: Node | null = document.contents;

  const seen = inspect(root, text, makeFault);
  const faults = [...seen.faults];
  let readableUntil = Number.POSITIVE_INFINITY;
  let isLost = false;
  for (const error of [...document.errors, ...document.warnings].slice(0, ENOUGH)) {
    // After one unexpected token the parser reports every following word: keep only the first.
    if (error.code === "UNEXPECTED_TOKEN" && isLost) continue;
    isLost ||= error.code === "UNEXPECTED_TOKEN";
    const offset = offsetOf(error, seen);
    if (!HARMLESS.has(error.code)) readableUntil = Math.min(readableUntil, offset);
    const path = error.code === "MULTIPLE_DOCS" ? [] : pathTo(root, offset);
    faults.push(makeFault(offset, path, sentenceOf(error)));
  }

  let value: unknown;
  if (seen.isSound) {
    const reading = expand(document, seen);
    value = reading.value;
    const [first] = seen.targets.keys();
    const offset = first?.range?.[0] ?? 0;
    if (reading.fault !== undefined) faults.push(makeFault(offset, [], `aliases such as this ${reading.fault} in all`));
  }

  const faultAt: YamlText["faultAt"] = (path, on, message) => {
    const node = nodeAt(root, path, on, seen);
    const [start, end] = node?.range ?? [0, 0];
    return end < readableUntil ? makeFault(start, path, message) : undefined;
  };
  return { faults, value, faultAt };
}

/** What a text has too much of, and where. */
interface Excess {
  readonly excess: string;
  readonly offset: number;
}

/**
 * The document of a text. The parser takes hundreds of bytes of memory for each byte of a hostile text, and its later
 * steps recurse: stop in front of them, where tokens are counted and nesting is known.
 */
function parse(text: string): Document.Parsed | Excess {
  const tokens: string[] = [];
  for (const token of new Lexer().lex(text)) {
    if (tokens.push(token) <= MAX_TOKENS) continue;
    return { excess: `the text has too many parts: more than ${MAX_TOKENS} words and signs`, offset: 0 };
  }
  const parser = new Parser();
  const parts = [];
  for (const token of tokens) {
    parts.push(...parser.next(token));
    // The stack holds the document, the open maps and lists, and a scalar.
    if (parser.stack.length <= MAX_YAML_DEPTH + 2) continue;
    return { excess: `maps and lists are nested deeper than ${MAX_YAML_DEPTH} here`, offset: parser.offset };
  }
  parts.push(...parser.end());
  const composer = new Composer({
    prettyErrors: false,
    stringKeys: true,
    // The composer compares every key with every other; `inspect` finds duplicates in one pass.
    uniqueKeys: false,
    resolveKnownTags: false,
    logLevel: "error",
  });
  // The composer makes an error for each faulty token, and capturing its stack takes longer than all the rest.
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    const [document, second] = composer.compose(parts, true, text.length).take(2);
    if (second) document!.errors.push(new YAMLParseError([second.range[0], second.range[1]], "MULTIPLE_DOCS", ""));
    return document as Document.Parsed;
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** Maps offsets to lines and columns. The parser's own counter is wrong after syntax faults. */
function locator(text: string): (offset: number) => { line: number; column: number } {
  // Editors do not show a byte order mark, so it is no column.
  const starts = [text.startsWith("\uFEFF") ? 1 : 0, ...Array.from(text.matchAll(/\n/g), ({ index }) => index + 1)];
  return (offset) => {
    let [low, high] = [0, starts.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (starts[middle]! <= offset) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: Math.max(offset - starts[low]!, 0) + 1 };
  };
}

type MakeFault = (offset: number, path: readonly PropertyKey[], message: string) => Fault;

/** The result of one pass over all nodes. */
interface Seen {
  readonly faults: Fault[];
  /** Whether the document's value can be read. */
  isSound: boolean;
  readonly targets: Map<Alias, Node>;
  /** The nodes that contain an alias. */
  readonly withAliases: Set<unknown>;
  /** The pairs of each map, by key; of duplicates the last, which takes effect. */
  readonly pairs: Map<YAMLMap, Map<string, Pair>>;
  /** The offsets of quotes and brackets that are never closed, in order. */
  readonly unclosed: number[];
}

function inspect(root: Node | null, text: string, makeFault: MakeFault): Seen {
  const seen: Seen = {
    faults: [],
    isSound: true,
    targets: new Map(),
    withAliases: new Set(),
    pairs: new Map(),
    unclosed: [],
  };
  const anchors = new Map<string, Node>();
  const addFault = (node: Node, message: string) => {
    const offset = node.range?.[0] ?? 0;
    if (seen.faults.length < ENOUGH) seen.faults.push(makeFault(offset, pathTo(root, offset), message));
  };
  const refuse = (node: Node, message: string) => {
    seen.isSound = false;
    addFault(node, message);
  };
  const followAlias = (node: Alias, ancestors: readonly unknown[]) => {
    const target = anchors.get(node.source);
    const alias = `the alias ${quote(node.source)}`;
    if (!target) refuse(node, `${alias} has no target: no such anchor comes before it`);
    else if (ancestors.includes(target)) refuse(node, `${alias} contains itself`);
    else seen.targets.set(node, target);
    for (const each of ancestors) seen.withAliases.add(each);
  };
  const indexPairs = (node: YAMLMap) => {
    const pairs = new Map<string, Pair>();
    for (const pair of node.items) {
      if (!isScalar(pair.key)) continue;
      const name = String(pair.key.value);
      if (pair.key.type === "PLAIN" && name === "<<") {
        addFault(pair.key, "is a merge key of YAML 1.1, which is not supported: write the keys out");
      } else if (pairs.has(name)) addFault(pair.key, "is a duplicate key");
      pairs.set(name, pair);
    }
    seen.pairs.set(node, pairs);
  };
  const checkText = (node: Node, value: string, isKey: boolean) => {
    if (value.includes("\0") || !value.isWellFormed()) {
      refuse(node, "contains a character that cannot be stored: NUL or half a surrogate pair");
    } else if (isKey && value === "__proto__") {
      refuse(node, "is a reserved word");
    }
  };
  visit(root, {
    Node(key, node, ancestors) {
      if (isAlias(node)) return followAlias(node, ancestors);
      if (isUnclosed(node, text)) seen.unclosed.push(startOf(node));
      if (node.anchor) anchors.set(node.anchor, node);
      if (isMap(node)) indexPairs(node);
      else if (isScalar(node) && typeof node.value === "string") checkText(node, node.value, key === "key");
      return undefined;
    },
  });
  return seen;
}

/** The value of a document, with its aliases expanded; or what they do too often. */
function expand(document: Document, { targets, withAliases }: Seen): { value?: unknown; fault?: string } {
  const areNested = [...targets.values()].some((target) => withAliases.has(target));
  if (!areNested && countRepeated(targets) > MAX_REPEATED) return { fault: `repeat more than ${MAX_REPEATED} values` };
  try {
    return { value: document.toJS({ maxAliasCount: areNested ? MAX_ALIASES : -1 }) };
  } catch {
    return { fault: `are used more than ${MAX_ALIASES} times` };
  }
}

/** The number of values that aliases of values without aliases repeat. */
function countRepeated(targets: Seen["targets"]): number {
  const sizes = new Map<Node, number>();
  const sizeOf = (target: Node) => {
    let size = 0;
    visit(target, { Node: () => void size++ });
    sizes.set(target, size);
    return size;
  };
  let repeated = 0;
  for (const target of targets.values()) repeated += sizes.get(target) ?? sizeOf(target);
  return repeated;
}

const startOf = (node: unknown): number => (node as Node | null)?.range?.[0] ?? Number.POSITIVE_INFINITY;
const endOf = (node: unknown): number => (node as Node | null)?.range?.[2] ?? -1;

/** The path of the innermost node at an offset. */
function pathTo(root: Node | null, offset: number): PropertyKey[] {
  const path: PropertyKey[] = [];
  let node: unknown = root;
  for (;;) {
    if (isMap(node)) {
      const pair: Pair | undefined = node.items.findLast(({ key }) => startOf(key) <= offset);
      if (!isScalar(pair?.key) || offset >= Math.max(endOf(pair.key), endOf(pair.value))) return path;
      path.push(String(pair.key.value));
      node = pair.value;
    } else if (isSeq(node)) {
      const index = node.items.findLastIndex((item) => startOf(item) <= offset);
      if (index < 0 || offset >= endOf(node.items[index])) return path;
      path.push(index);
      node = node.items[index];
    } else {
      return path;
    }
    if (startOf(node) > offset) return path;
  }
}

/** The node at a path, following aliases; if the path does not exist, the last node on the way. */
function nodeAt(root: Node | null, path: readonly PropertyKey[], on: "key" | "value", seen: Seen): Node | null {
  let node = root;
  for (const [index, step] of path.entries()) {
    const collection: unknown = isAlias(node) ? seen.targets.get(node) : node;
    const isLast = index === path.length - 1;
    const next = itemAt(collection, step, isLast ? on : "value", seen);
    if (!next) return node;
    node = next;
  }
  return node;
}

/** The key or the value of a map's pair, or an item of a sequence. A pair without a value has its key only. */
function itemAt(collection: unknown, step: PropertyKey, on: "key" | "value", seen: Seen): Node | undefined {
  if (isMap(collection)) {
    const pair = seen.pairs.get(collection)?.get(String(step));
    return pair && ((on === "key" ? pair.key : (pair.value ?? pair.key)) as Node);
  }
  return isSeq(collection) && typeof step === "number" ? (collection.items[step] as Node | undefined) : undefined;
}

const CLOSING: Record<string, string> = { '"': '"', "'": "'", "[": "]", "{": "}" };

/** Whether the quote or bracket that opens a node is not closed at the node's end. */
function isUnclosed(node: Node, text: string): boolean {
  const [start, end] = node.range ?? [0, 0];
  const closing = CLOSING[text[start] ?? ""];
  return closing !== undefined && (end - start < 2 || text[end - 1] !== closing);
}

/**
 * The offset to report for a syntax fault: an unclosed quote or bracket is fixed where it opens, not where the text
 * ends.
 */
function offsetOf({ code, message, pos }: YAMLError, seen: Seen): number {
  const isClosingMissed = code === "MISSING_CHAR" || message.startsWith("Flow ");
  return (isClosingMissed ? seen.unclosed.findLast((start) => start < pos[0]) : undefined) ?? pos[0];
}

function sentenceOf({ code, message }: YAMLError): string {
  switch (code) {
    case "UNEXPECTED_TOKEN":
      return "does not belong here: look at the indentation, quotes and brackets of this and the lines above";
    case "TAB_AS_INDENT":
      return "the line begins with a tab: YAML is indented with spaces";
    case "BLOCK_AS_IMPLICIT_KEY":
    case "MULTILINE_IMPLICIT_KEY":
      return "a key is not allowed here: put text that contains a colon in quotes, or fix the indentation";
    case "MULTIPLE_DOCS":
      return "a second document begins here: the file must have one, so --- is not allowed in the middle";
    case "NON_STRING_KEY":
      return "a key must be text";
    case "TAG_RESOLVE_FAILED":
      return `the tag ${quote(message.split(": ").at(-1)!)} is not supported here`;
    case "MISSING_CHAR":
      return message.endsWith("quote") ? "the text that begins here has no closing quote" : lowerFirst(message);
    case "BAD_INDENT":
      return message.startsWith("Flow ")
        ? "the bracket that opens here is not closed, or its contents are not indented far enough"
        : "is not indented like its neighbours";
    default:
      return lowerFirst(message);
  }
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
