import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

/**
 * Ports that no system hands out by itself: a port between a server's end and its next start cannot be given to an outgoing
 * connection of another process.
 */
const FIRST = 10_240;
const LAST = 32_767;

/** A port of 127.0.0.1 that nothing listened on a moment ago. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST, LAST + 1);
    const server = createServer().listen(port, "127.0.0.1");
    const isFree = await once(server, "listening").then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, "close");
    return port;
  }
}
