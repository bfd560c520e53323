import { createServer, type ServerResponse } from "node:http";
import { Redis } from "ioredis";
import pg from "pg";
import { serveParent } from "../support/child.ts";

/**
 * The minimal path from one gateway to a reader at another: HTTP, one row committed in PostgreSQL, PUBLISH, and a
 * subscriber that writes each message to its readers. `bare-trip.ts <postgres> <redis>`.
 */
const [database, bus] = process.argv.slice(2) as [string, string];
const pool = new pg.Pool({ connectionString: database, max: 16 });
await pool.query("CREATE TABLE IF NOT EXISTS bare (id BIGSERIAL PRIMARY KEY, body TEXT NOT NULL)").catch(() => {});
const publisher = new Redis(bus);
const subscriber = new Redis(bus);
const readers = new Map<string, Set<ServerResponse>>();
subscriber.on("messageBuffer", (topic: Buffer, frame: Buffer) => {
  for (const reader of readers.get(topic.toString()) ?? []) reader.write(frame);
});

const server = createServer((request, response) => {
  const topic = `bare${request.url}`;
  if (request.method === "GET") {
    const own = readers.get(topic) ?? new Set();
    readers.set(topic, own.add(response));
    void subscriber.subscribe(topic).then(() => {
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.write(":\n\n");
    });
    return;
  }
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", async () => {
    const body = Buffer.concat(chunks).toString();
    await pool.query({ name: "put", text: "INSERT INTO bare (body) VALUES ($1)", values: [body] });
    void publisher.publish(topic, `data: ${JSON.stringify(JSON.parse(body))}\n\n`);
    response.setHeader("Content-Type", "application/json");
    response.setHeader("Content-Length", 2);
    response.end("{}");
  });
});

server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as { port: number };
  serveParent(`http://127.0.0.1:${port}`, {
    async stop() {
      server.closeAllConnections();
      publisher.disconnect();
      subscriber.disconnect();
      await pool.end();
    },
  });
});
