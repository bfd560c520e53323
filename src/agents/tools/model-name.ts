import { createHash } from "node:crypto";

/** The longest name that every provider accepts. */
const MAX_NAME_UNITS = 64;
/** The end of a name that carries a mark: 64 bits of a hash, more than a server can find a second tool for. */
const MARK = /_[0-9a-f]{16}$/;
const SAFE = /^[A-Za-z0-9_-]+$/;

/**
 * The name by which models call a tool of an MCP server: `<server>_<tool>`, and with a mark `<server>_<tool>_<mark>`
 * where that name could stand for another tool too. It depends on the server's and the tool's name alone, so that no
 * other server can take it, and an approval for the session stays with its tool.
 *
 * Names without a mark differ because a server's name without `_` ends at the first one; those with a mark, because of
 * their marks. Interlock's own tools have no `_`.
 */
export function modelNameOf(server: string, tool: string): string {
  const name = `${server}_${tool}`;
  const isPlain = !server.includes("_") && name.length <= MAX_NAME_UNITS && SAFE.test(name) && !MARK.test(name);
  if (isPlain && tool !== "") return name;
  const mark = createHash("sha256").update(`${server}/${tool}`).digest("hex").slice(0, 16);
  return `${name.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, MAX_NAME_UNITS - mark.length - 1)}_${mark}`;
}
