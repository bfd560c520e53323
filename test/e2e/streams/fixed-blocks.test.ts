import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { E2eClient } from "../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

/** The raw bytes of a session's stream up to its first event. */
async function rawStream(sessionId: string, userAgent: string): Promise<string> {
  const { hostname, port } = new URL(node.url);
  const socket = connect(Number(port), hostname);
  onTestFinished(() => void socket.destroy());
  const request = [
    `GET /session/${sessionId}/events HTTP/1.1`,
    `Host: ${hostname}:${port}`,
    `User-Agent: ${userAgent}`,
  ];
  socket.write(`${request.join("\r\n")}\r\n\r\n`);
  let text = "";
  socket.setEncoding("utf8").on("data", (piece) => (text += piece));
  while (!text.includes("data: ")) await once(socket, "data");
  return text;
}

test("Python's requests, which waits for full blocks of a body without chunks, gets a stream in chunks", async () => {
  const { id } = await new E2eClient(node).hold("music");
  const [head, body] = (await rawStream(id, "python-requests/2.32.3")).split(/\r\n\r\n(.*)/s);
  expect(head!.toLowerCase()).toContain("transfer-encoding: chunked");
  expect(body).toMatch(/^d\r\nretry: 2000\n\n\r\n/);
  const [usual, plain] = (await rawStream(id, "curl/8.0")).split(/\r\n\r\n(.*)/s);
  expect(usual!.toLowerCase()).not.toContain("transfer-encoding");
  expect(plain).toMatch(/^retry: 2000\n\n/);
});
