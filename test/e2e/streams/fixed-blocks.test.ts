import { afterAll, expect, onTestFinished, test } from "vitest";
import { E2eClient } from "../../support/clients/e2e-client.ts";
import { headOf, RawSocket } from "../../support/networks/raw-socket.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start({}, afterAll);

/** The raw bytes of a session's stream up to its first event. */
async function rawStream(sessionId: string, userAgent: string | undefined): Promise<string> {
  const socket = await RawSocket.open(node.url);
  onTestFinished(() => socket.destroy());
  const headers = userAgent !== undefined && { "User-Agent": userAgent };
  await socket.send(headOf("GET", `/session/${sessionId}/events`, { ...headers }));
  return await socket.until(/data: /);
}

test.each([
  ["Python's requests", "python-requests/2.32.3"],
  ["Python's urllib3", "python-urllib3/2.2.1"],
  ["a program with a name of its own", "my-car-app/1.0"],
  ["a program without a name", undefined],
])("%s gets a stream in chunks: it may wait until a block of a body without chunks is full", async (_, userAgent) => {
  const { id } = await new E2eClient(node).hold("music");
  const [head, body] = (await rawStream(id, userAgent)).split(/\r\n\r\n(.*)/s);
  expect(head!.toLowerCase()).toContain("transfer-encoding: chunked");
  expect(body).toMatch(/^c\r\nretry: 2000\n\r\n/);
});

test("a browser gets a stream without chunks, which it does not need", async () => {
  const { id } = await new E2eClient(node).hold("music");
  const [head, body] = (await rawStream(id, "Mozilla/5.0 (X11; Linux x86_64)")).split(/\r\n\r\n(.*)/s);
  expect(head!.toLowerCase()).not.toContain("transfer-encoding");
  expect(body).toMatch(/^retry: 2000\nid: /);
});
