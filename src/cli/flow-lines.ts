import { flow, HOPS } from "../shared/flow.ts";
import { STDOUT } from "../system/log.ts";
import { printLines } from "./printed-lines.ts";

const FILE_WIDTH = Math.max(...Object.values(HOPS).map((file) => file.length));

/** Print one line for each hop from now on: the ms since the hop before it, its file, and what happens there. */
export function printFlow(): void {
  let lastAt = performance.now();
  flow.onHop = (hop, about) => {
    const now = performance.now();
    const since = `+${(now - lastAt).toFixed(2)} ms`;
    printLines(STDOUT, [`${since.padStart(13)}  ${HOPS[hop].padEnd(FILE_WIDTH)}  ${about}`]);
    lastAt = now;
  };
}
