/** What a broker that does not keep to MQTT does to the bridge: it is left, and tried again. */

import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, type TestContext, test } from "vitest";
import { BrokerLink } from "../../../../src/cli/mqtt/broker-link.ts";

const ACCEPTED = { "5": [0x20, 3, 0, 0, 0], "3.1.1": [0x20, 2, 0, 0] } as const;
/** What it sends in place of the acceptance of a connection. */
const AT_FIRST: Record<string, Buffer> = {
  nothing: Buffer.alloc(0),
  "an answer of HTTP": Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n"),
  "bytes that are no packet": Buffer.from([0xff, 0xfe, 0, 1, 2, 3]),
  "a refusal without a reason": Buffer.from([0x20, 2, 0, 77]),
};
/** What it sends after it has accepted the connection. */
const LATER: Record<string, readonly number[]> = {
  "a second acceptance": [0x20, 3, 0, 0, 0],
  "a message with QoS 3": [0x36, 5, 0, 1, 0x74, 0, 1],
  "a message with QoS 2": [0x34, 6, 0, 1, 0x74, 0, 1, 0],
  "a message with QoS 2 without a number": [0x34, 2, 0, 0],
  "a message with QoS 1 without a number": [0x32, 3, 0, 1, 0x74],
  "a release without a number": [0x62, 0],
  "messages with QoS 2 that are released": [0x34, 2, 0, 0, 0x62, 2, 0, 1, 0x92, 4, 0, 1, 0, 0],
  "a topic that is longer than its packet": [0x30, 4, 0xff, 0xff, 1, 2],
  "a length without an end": [0x30, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
  "a request to connect": [0x10, 0],
};

/** A broker that answers each connection so, and a link to it. */
async function listenTo(version: keyof typeof ACCEPTED, lie: Buffer, onTestFinished: TestContext["onTestFinished"]) {
  const connections = Promise.withResolvers<void>();
  let count = 0;
  const server = createServer((socket) => {
    socket.on("error", () => {});
    count += 1;
    if (count === 2) connections.resolve();
    socket.once("data", () => (lie.length === 0 ? socket.destroy() : socket.write(lie)));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const down = Promise.withResolvers<string>();
  const messages: string[] = [];
  const link = await BrokerLink.open({
    broker: {
      url: `mqtt://127.0.0.1:${(server.address() as AddressInfo).port}`,
      version: version === "5" ? 5 : version,
    },
    file: "mqtt.yaml",
    will: { topic: "will", payload: "offline" },
    onUp: () => {},
    onDown: down.resolve,
    onMessage: ({ topic }) => messages.push(topic),
  });
  onTestFinished(() => link.close());
  return { why: await down.promise, again: connections.promise, messages };
}

const cases = (["5", "3.1.1"] as const).flatMap((version) => [
  ...Object.entries(AT_FIRST).map(([what, bytes]) => [what, version, bytes] as const),
  ...Object.entries(LATER).map(
    ([what, bytes]) => [what, version, Buffer.from([...ACCEPTED[version], ...bytes])] as const,
  ),
]);

test.concurrent.for(cases)(
  "a broker that sends %s is left and tried again (MQTT %s)",
  async ([_, version, bytes], { onTestFinished }) => {
    const { why, again, messages } = await listenTo(version, bytes, onTestFinished);
    expect(why).not.toBe("");
    await again;
    expect(messages).toEqual([]);
  },
);
