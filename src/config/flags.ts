import { suggest } from "./nearest.ts";

/** The flags of a command line. */
export interface Flags {
  /** Values by flag, as in `--port`. */
  values: Map<string, string>;
  /** All faults, in the order of the command line. */
  faults: { name: string; message: string }[];
}

/** Read `--flag value` and `--flag=value`. Each flag takes one value and may be given once. */
export function readFlags(args: readonly string[], known: readonly string[]): Flags {
  const flags: Flags = { values: new Map(), faults: [] };
  const refuse = (name: string, message: string) => flags.faults.push({ name, message });
  for (let index = 0; index < args.length; index++) {
    const [name, inline] = split(args[index]!);
    if (!name.startsWith("--")) {
      refuse(name, "is not understood: settings are given as --flag value");
      continue;
    }
    // Skip the value of an unknown flag too, so that one mistake causes one fault.
    const next = args[index + 1];
    const value = inline ?? (next?.startsWith("--") ? undefined : next);
    if (inline === undefined && value !== undefined) index++;
    const fault = faultOf(name, value, known, flags);
    if (fault !== undefined) refuse(name, fault);
    else flags.values.set(name, value!);
  }
  return flags;
}

function faultOf(
  name: string,
  value: string | undefined,
  known: readonly string[],
  { values }: Flags,
): string | undefined {
  if (!known.includes(name)) return `is not a flag${suggest(name, known)}`;
  if (!value) return "needs a value";
  return values.has(name) ? "is given twice" : undefined;
}

/** Split at the first `=`: a value may contain more of them. */
function split(argument: string): [name: string, value: string | undefined] {
  const at = argument.indexOf("=");
  return at < 0 || !argument.startsWith("--") ? [argument, undefined] : [argument.slice(0, at), argument.slice(at + 1)];
}
