import { createServer } from "node:http";
import { serveParent } from "../support/child.ts";

/**
 * A model's provider in the wire format of chat completions: 50 tokens a second. Each token is the time at which it was
 * sent, in ns of the machine's monotonic clock. `tokens:N` in the user's message is their number.
 */
const TOKEN_MS = 20;

const server = createServer(async (request, response) => {
  let text = "";
  for await (const piece of request.setEncoding("utf8")) text += piece;
  const count = Number(/tokens:(\d+)/.exec(text)?.[1] ?? 1);
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  const send = (delta: object, finish: string | null = null) => {
    const choices = [{ index: 0, delta, finish_reason: finish }];
    response.write(
      `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "fake", choices })}\n\n`,
    );
  };
  let sent = 0;
  const timer = setInterval(() => {
    send({ content: `${process.hrtime.bigint()} ` });
    if (++sent < count) return;
    clearInterval(timer);
    send({}, "stop");
    response.end("data: [DONE]\n\n");
  }, TOKEN_MS);
  response.on("close", () => clearInterval(timer));
});

server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as { port: number };
  serveParent(`http://127.0.0.1:${port}`, { stop: () => server.closeAllConnections() });
});
