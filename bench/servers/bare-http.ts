import { createServer, type ServerResponse } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import { serveParent } from "../support/child.ts";
import { FRAME_BYTES } from "../support/readers.ts";

/** Bare `node:http`: answers a POST with a short JSON body, and writes one shared buffer to every open stream. */
const readers = new Set<ServerResponse>();

const server = createServer((request, response) => {
  if (request.method === "GET") {
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-cache" });
    response.write("retry: 2000\n\n");
    readers.add(response);
    response.on("close", () => readers.delete(response));
    return;
  }
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const body = JSON.stringify({ success: true, got: JSON.parse(Buffer.concat(chunks).toString()) });
    response.writeHead(200, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) });
    response.end(body);
  });
});

server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as { port: number };
  serveParent(`http://127.0.0.1:${port}`, {
    async emit(events) {
      const frame = Buffer.from(`id: bare.1\ndata: ${"x".repeat(FRAME_BYTES - 19)}\n\n`);
      for (let event = 0; event < events; event++) {
        for (const reader of readers) reader.write(frame);
        await nextTurn();
      }
    },
    stop: () => server.closeAllConnections(),
  });
});
