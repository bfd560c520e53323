/** Shorter values are not redacted, because they may be ordinary words. */
const MIN_SECRET_UNITS = 8;

interface Secret {
  readonly value: string;
  /** For each prefix of the value, by its last index: how long its longest beginning is that is also its end. */
  readonly borders: Uint32Array;
}

/** Replaces the values of secrets in texts by `[NAME]`, also in texts that arrive in pieces. */
export class Redactor {
  readonly #secrets: readonly Secret[];
  readonly #names = new Map<string, string>();
  /** Matches the longest value that begins at an index. Undefined without secrets. */
  readonly #pattern: RegExp | undefined;

  /** @param variables the variables whose values are secret, by name */
  constructor(variables: Iterable<readonly [name: string, value: string]>) {
    for (const [name, rawValue] of variables) {
      const value = rawValue.trim();
      if (value.length < MIN_SECRET_UNITS) continue;
      // Arguments of tools, and some programs' lines, are JSON, in which a value may have escapes.
      for (const form of [value, JSON.stringify(value).slice(1, -1)]) {
        if (!this.#names.has(form)) this.#names.set(form, name);
      }
    }
    const values = [...this.#names.keys()].toSorted((one, other) => other.length - one.length);
    this.#secrets = values.map((value) => ({ value, borders: bordersOf(value) }));
    this.#pattern = values.length > 0 ? new RegExp(values.map(escaped).join("|"), "g") : undefined;
  }

  /** A text that is complete. */
  readonly text = (text: string): string =>
    this.#pattern ? text.replace(this.#pattern, (value) => this.#nameOf(value)) : text;

  /** All texts within a value, and the keys of its objects. */
  value<T>(value: T): T {
    if (!this.#pattern) return value;
    return this.#value(value) as T;
  }

  /**
   * A text that more text may follow. `rest`: the end of it that may be the beginning of a secret; it belongs before
   * the next piece, and is shorter than the longest secret. It is empty for an end that begins no secret.
   */
  split(text: string): { readonly clean: string; readonly rest: string } {
    if (!this.#pattern) return { clean: text, rest: "" };
    let clean = "";
    let at = 0;
    let restAt = this.#restOf(text, 0);
    for (const { 0: value, index } of text.matchAll(this.#pattern)) {
      if (index >= restAt) break;
      clean += text.slice(at, index) + this.#nameOf(value);
      at = index + value.length;
      // The rest began within this value.
      if (restAt < at) restAt = this.#restOf(text, at);
    }
    return { clean: clean + text.slice(at, restAt), rest: text.slice(restAt) };
  }

  /**
   * A text of `split` after which no more of its message comes. At least half of a secret at its end is replaced too.
   */
  end(rest: string): string {
    for (let at = 0; at < rest.length; at += 1) {
      const half = this.#secrets.find(
        ({ value }) => (rest.length - at) * 2 >= value.length && value.startsWith(rest.slice(at)),
      );
      if (half) return `${this.text(rest.slice(0, at))}${this.#nameOf(half.value)}`;
    }
    return this.text(rest);
  }

  /**
   * A text before which the message ended in `begun`, the beginning of a secret. `undefined` while the text may be the
   * middle of that secret; otherwise the text, with the rest of the secret replaced if it stands there.
   */
  continued(begun: string, text: string): string | undefined {
    const rests = this.#secrets.flatMap(({ value }) => (value.startsWith(begun) ? [value.slice(begun.length)] : []));
    const whole = rests.find((rest) => text.startsWith(rest));
    if (whole !== undefined) return `${this.#nameOf(begun + whole)}${text.slice(whole.length)}`;
    return rests.some((rest) => rest.startsWith(text)) ? undefined : text;
  }

  /** The middle of a secret that began with `begun`, after which no more of its message comes. */
  middle(begun: string, text: string): string {
    const whole = begun + text;
    const half = this.#secrets.find(({ value }) => whole.length * 2 >= value.length && value.startsWith(whole));
    return half ? this.#nameOf(half.value) : text;
  }

  #nameOf(value: string): string {
    return `[${this.#names.get(value)}]`;
  }

  #value(value: unknown): unknown {
    if (typeof value === "string") return this.text(value);
    if (Array.isArray(value)) return value.map((one) => this.#value(one));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [this.text(key), this.#value(one)]));
  }

  /**
   * Where the longest end of `text`, not before `from`, begins that is the beginning of a secret, and not all of it.
   */
  #restOf(text: string, from: number): number {
    const lengths = this.#secrets.map(({ value, borders }) => {
      let length = 0;
      for (let at = Math.max(from, text.length - value.length + 1); at < text.length; at += 1) {
        while (length > 0 && value[length] !== text[at]) length = borders[length - 1]!;
        if (value[length] === text[at]) length += 1;
      }
      return length;
    });
    return text.length - Math.max(0, ...lengths);
  }
}

const escaped = (value: string): string => value.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");

/** The table of Knuth, Morris and Pratt, by which a text is searched in linear time. */
function bordersOf(value: string): Uint32Array {
  const borders = new Uint32Array(value.length);
  for (let at = 1, length = 0; at < value.length; at += 1) {
    while (length > 0 && value[length] !== value[at]) length = borders[length - 1]!;
    if (value[length] === value[at]) length += 1;
    borders[at] = length;
  }
  return borders;
}
