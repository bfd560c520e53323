import { expect, onTestFinished, test } from "vitest";
import { headOf, RawSocket } from "../../support/networks/raw-socket.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

test("an address whose connections all read streams is refused more of them, and its probes are answered", async () => {
  const node = await NodeUnderTest.start({ settings: { INTERLOCK_ADDRESS_CONNECTIONS: "3" } });
  onTestFinished(() => node.stop());
  const open = async () => {
    const socket = await RawSocket.open(node.url, { from: "127.0.0.2" });
    onTestFinished(() => socket.destroy());
    return socket;
  };
  for (let index = 0; index < 3; index++) {
    const reader = await open();
    await reader.send(headOf("GET", "/events"));
    await reader.until(/"connected"/);
  }
  const fourth = await open();
  await fourth.send(headOf("GET", "/events"));
  await fourth.closed;
  expect(fourth.text).toBe("");
  for (const path of ["/health", "/ready"]) {
    const probe = await open();
    await probe.send(headOf("GET", path));
    expect(await probe.until(/"status":"ok"/)).toMatch(/^HTTP\/1\.1 200 /);
  }
});
