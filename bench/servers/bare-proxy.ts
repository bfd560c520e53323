import { createServer, request as send } from "node:http";
import { serveParent } from "../support/child.ts";

/** The minimal proxy: pipes requests to the provider named by `BENCH_PROVIDER`, and its answers back. */
const provider = process.env["BENCH_PROVIDER"]!;

const server = createServer((request, response) => {
  const { method, url, headers } = request;
  const upstream = send(`${provider}${url}`, { method, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  upstream.on("error", () => response.destroy());
  response.on("close", () => upstream.destroy());
  request.pipe(upstream);
});

server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as { port: number };
  serveParent(`http://127.0.0.1:${port}`, { stop: () => server.closeAllConnections() });
});
