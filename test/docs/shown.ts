/** Placeholders of a page for values that differ between runs. */
const ANYTHING = "…";

/**
 * The first difference between an answer and what a page shows of it; pages may leave out fields and the ends of lists.
 * Undefined if there is none.
 */
export function difference(shown: unknown, actual: unknown, path = "answer"): string | undefined {
  if (shown === ANYTHING) return actual === undefined ? `${path} is missing` : undefined;
  if (typeof shown !== "object" || shown === null) {
    return shown === actual ? undefined : `${path} is ${JSON.stringify(actual)}, not ${JSON.stringify(shown)}`;
  }
  if (typeof actual !== "object" || actual === null) return `${path} is ${JSON.stringify(actual)}`;
  const isEmpty = Object.keys(shown).length === 0;
  if (isEmpty && Object.keys(actual).length > 0) return `${path} is not empty`;
  for (const [key, value] of Object.entries(shown)) {
    const found = difference(value, (actual as Record<string, unknown>)[key], `${path}.${key}`);
    if (found) return found;
  }
  return undefined;
}

/** A request in a page's `curl` command. */
export interface ShownRequest {
  url: string;
  method: string;
  headers: Record<string, string>;
  body: string | undefined;
  /** `-N`: the answer is a stream. */
  isStream: boolean;
}

/** The requests of a shell block; undefined for a block with other commands. */
export function requestsOf(block: string): ShownRequest[] | undefined {
  const lines = block.replaceAll("\\\n", " ").split("\n").filter(Boolean);
  return lines.every((line) => line.startsWith("curl ")) ? lines.map(requestOf) : undefined;
}

function requestOf(line: string): ShownRequest {
  const words = [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain!);
  const request: ShownRequest = { url: "", method: "GET", headers: {}, body: undefined, isStream: false };
  for (let index = 1; index < words.length; index++) {
    const word = words[index]!;
    if (word === "-s") continue;
    if (word === "-N") request.isStream = true;
    else if (word === "-X") request.method = words[++index]!;
    else if (word === "-H") {
      const [name, value] = words[++index]!.split(": ");
      request.headers[name!] = value!;
    } else if (word === "-d") {
      request.body = words[++index]!;
      request.method = "POST";
    } else if (word.startsWith("http://")) request.url = word;
    else throw new Error(`${word} is not understood in: ${line}`);
  }
  return request;
}

/** The answers that a block shows, in order. */
export function answersOf(block: string): unknown[] {
  return block
    .split(/^(?=\{)/m)
    .filter(Boolean)
    .map((text) => JSON.parse(text));
}
