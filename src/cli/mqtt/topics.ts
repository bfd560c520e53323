/** Topics of MQTT: what a topic of the file matches, and how names are written in a level. */

/** Longer topics are not MQTT's: a length has 16 bits. */
const MAX_TOPIC_BYTES = 65_535;

/** What a topic may not contain: NUL ends a text in many brokers. */
const FORBIDDEN = "\u0000";

/** A topic of the file in which `+name` stands for one level, `+` for one without a name, and a last `#` for any. */
export class TopicPattern {
  /** What is subscribed to: the pattern with `+` in place of `+name`. */
  readonly filter: string;
  /** The names of its levels. */
  readonly names: readonly string[];
  readonly #levels: readonly string[];

  /** @throws Error with a sentence about the pattern, if it is none */
  constructor(pattern: string) {
    const fault = faultOfPattern(pattern);
    if (fault !== undefined) throw new Error(fault);
    this.#levels = pattern.split("/");
    this.filter = this.#levels.map((level) => (level.startsWith("+") ? "+" : level)).join("/");
    this.names = this.#levels.filter((level) => /^\+./.test(level)).map((level) => level.slice(1));
  }

  /** The same topic with another last level. */
  withLastLevel(level: string): TopicPattern {
    return new TopicPattern([...this.#levels.slice(0, -1), level].join("/"));
  }

  /** The decoded values of the named levels, or undefined if the topic does not match. */
  match(topic: string): Readonly<Record<string, string>> | undefined {
    const found: Record<string, string> = {};
    const levels = topic.split("/");
    for (let index = 0; index < this.#levels.length; index++) {
      const wanted = this.#levels[index]!;
      if (wanted === "#") return found;
      const level = levels[index];
      if (level === undefined) return undefined;
      if (!wanted.startsWith("+")) {
        if (wanted !== level) return undefined;
        continue;
      }
      const name = wanted.slice(1);
      if (name === "") continue;
      const value = decodeLevel(level);
      if (value === undefined) return undefined;
      found[name] = value;
    }
    return levels.length === this.#levels.length ? found : undefined;
  }
}

/** Why a text is no topic with wildcards; undefined if it is one. */
export function faultOfPattern(pattern: string): string | undefined {
  if (pattern === "" || Buffer.byteLength(pattern) > MAX_TOPIC_BYTES) return "must be a topic of 1 to 65,535 bytes";
  if (pattern.includes(FORBIDDEN)) return "must not contain NUL";
  const levels = pattern.split("/");
  for (const [index, level] of levels.entries()) {
    if (level === "#" && index === levels.length - 1) continue;
    if (/^\+([a-z_]{0,64})$/.test(level)) continue;
    if (/[+#]/.test(level)) return "has a wildcard that is no whole level: write +, +name or, at its end, #";
  }
  const names = levels.filter((level) => /^\+./.test(level));
  return new Set(names).size === names.length ? undefined : "names a level twice";
}

/** Why a text is no topic to publish to; undefined if it is one. */
export function faultOfTopic(topic: string): string | undefined {
  if (topic === "" || Buffer.byteLength(topic) > MAX_TOPIC_BYTES) return "must be a topic of 1 to 65,535 bytes";
  return /[+#\0]/.test(topic) ? "must be a topic without wildcards" : undefined;
}

/** A name as one level of a topic: `/`, `+`, `#` and `%` are percent-encoded. */
export const encodeLevel = (name: string): string =>
  name.replace(/[%/+#\0]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`);

/** The name of a level. Undefined if it is empty, or not percent-encoded as it says. */
export function decodeLevel(level: string): string | undefined {
  if (level === "") return undefined;
  try {
    return decodeURIComponent(level);
  } catch {
    return undefined;
  }
}

/** The floor without a zone, as a level; a zone with this name is percent-encoded. */
const NO_ZONE = "-";

/** The last part of a floor's topics: `driver/-` for a user's floor without a zone, `house/kitchen` for another. */
export const levelsOfFloor = (userId: string, zone: string | undefined): string =>
  `${encodeLevel(userId)}/${zone === undefined ? NO_ZONE : zone === NO_ZONE ? "%2D" : encodeLevel(zone)}`;

/** The user and the zone of two such levels. */
export function floorOfLevels(user: string, zone: string): { userId: string; zone: string | undefined } | undefined {
  const userId = decodeLevel(user);
  const named = decodeLevel(zone);
  if (userId === undefined || named === undefined) return undefined;
  return { userId, zone: zone === NO_ZONE ? undefined : named };
}
