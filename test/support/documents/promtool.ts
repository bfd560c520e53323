import { spawn } from "node:child_process";
import { once } from "node:events";

/** The output of promtool, Prometheus' own checker; `input` is its stdin. */
export async function promtool(
  path: string,
  args: readonly string[],
  input = "",
): Promise<{ code: number; said: string }> {
  const child = spawn(path, args);
  let said = "";
  for (const output of [child.stdout, child.stderr]) output.setEncoding("utf8").on("data", (text) => (said += text));
  child.stdin.end(input);
  const [code] = await once(child, "close");
  return { code, said };
}
