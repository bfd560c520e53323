import { expect, onTestFinished, test } from "vitest";
import { headOf, RawSocket } from "../../support/networks/raw-socket.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

async function start(settings: Record<string, string> = {}) {
  const node = await NodeUnderTest.start({ settings });
  onTestFinished(() => node.stop());
  const open = async (from?: string) => {
    const socket = await RawSocket.open(node.url, { ...(from !== undefined && { from }) });
    onTestFinished(() => socket.destroy());
    return socket;
  };
  return { node, open };
}

test("half-sent heads of one address block no client, not even another client of that address", async () => {
  const { open } = await start({ INTERLOCK_ADDRESS_CONNECTIONS: "20" });
  const halves: RawSocket[] = [];
  for (let index = 0; index < 60; index++) {
    const half = await open("127.0.0.2");
    await half.send("GET /agents HTTP/1.1\r\nHost: 127.0");
    halves.push(half);
  }
  for (const from of ["127.0.0.2", "127.0.0.3"]) {
    const client = await open(from);
    await client.send(headOf("GET", "/agents", { Connection: "close" }));
    expect(await client.until(/"defaultAgentId"/)).toMatch(/^HTTP\/1\.1 200 /);
  }
  // The oldest ones were closed to make room.
  await Promise.all(halves.slice(0, 30).map(({ closed }) => closed));
});

test("an address whose connections all read streams is refused more of them, and its probes are answered", async () => {
  const { open } = await start({ INTERLOCK_ADDRESS_CONNECTIONS: "3" });
  for (let index = 0; index < 3; index++) {
    const reader = await open("127.0.0.2");
    await reader.send(headOf("GET", "/events"));
    await reader.until(/"connected"/);
  }
  const fourth = await open("127.0.0.2");
  await fourth.send(headOf("GET", "/events"));
  await fourth.closed;
  expect(fourth.text).toBe("");
  for (const path of ["/health", "/ready"]) {
    const probe = await open("127.0.0.2");
    await probe.send(headOf("GET", path));
    expect(await probe.until(/"status":"ok"/)).toMatch(/^HTTP\/1\.1 200 /);
  }
});
