/** Command-line flags as they were given. */
export interface Flags {
  /** By flag, as in `--port`. */
  values: Map<string, string>;
  /** Every fault, in the order of the line. */
  faults: { name: string; message: string }[];
}

/** Read `--flag value` and `--flag=value`. Each flag takes one value and may stand once. */
export function readFlags(args: readonly string[], known: readonly string[]): Flags {
  const flags: Flags = { values: new Map(), faults: [] };
  const refuse = (name: string, message: string) => flags.faults.push({ name, message });
  for (let index = 0; index < args.length; index++) {
    const [name, inline] = split(args[index]!);
    if (!name.startsWith("--")) {
      refuse(name, "is not understood: settings are given as --flag value");
      continue;
    }
    // A flag nobody knows takes its value with it, so that one mistake is one fault.
    const next = args[index + 1];
    const value = inline ?? (next?.startsWith("--") ? undefined : next);
    if (inline === undefined && value !== undefined) index++;
    if (!known.includes(name)) refuse(name, `is not a flag; there are ${known.join(" ")}`);
    else if (!value) refuse(name, "needs a value");
    else if (flags.values.has(name)) refuse(name, "is given twice");
    else flags.values.set(name, value);
  }
  return flags;
}

/** At the first `=`: values may hold more of them. */
function split(argument: string): [name: string, value: string | undefined] {
  const at = argument.indexOf("=");
  return at < 0 || !argument.startsWith("--") ? [argument, undefined] : [argument.slice(0, at), argument.slice(at + 1)];
}
