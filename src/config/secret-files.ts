import { readFileSync, statSync } from "node:fs";

/** The longest secret in a file, in bytes: many keys long. */
const MAX_SECRET_BYTES = 65_536;

type Variables = Readonly<Record<string, string | undefined>>;

/**
 * The environment, in which `NAME` may also be in a file that `NAME_FILE` names, unless `NAME` has a value itself. A
 * program of the same user can read the environment that a process was started with, and not what the process has read
 * since. A file is read once, when its variable is first needed; a line break at its end does not count. A file that
 * cannot be read, or has more than 64 KiB, gives no value.
 */
export function withSecretFiles(env: Variables): Variables {
  const read = new Map<string, string | undefined>();
  return new Proxy(env, {
    get(target, name) {
      if (typeof name !== "string") return Reflect.get(target, name);
      const text = target[name];
      const file = target[`${name}_FILE`];
      if (text || !file) return text;
      if (!read.has(name)) read.set(name, secretIn(file));
      return read.get(name);
    },
  });
}

function secretIn(path: string): string | undefined {
  try {
    const about = statSync(path);
    if (!about.isFile() || about.size > MAX_SECRET_BYTES) return undefined;
    return readFileSync(path, "utf8").replace(/\r?\n$/, "");
  } catch {
    return undefined;
  }
}
