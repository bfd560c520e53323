import { expect, test } from "vitest";
import { z } from "zod";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import type { ConnectionId, FloorId } from "../../../src/protocol/ids.ts";
import { readMessage } from "../../../src/protocol/internal/bus-message.ts";
import { connectionTopic } from "../../../src/protocol/internal/connection-message.ts";
import { floorTopic } from "../../../src/protocol/internal/floor-message.ts";
import { SystemClock } from "../../../src/system/system-clock.ts";
import { SseReader } from "../../support/clients/sse-reader.ts";
import { openGateway } from "../../support/nodes/gateway-stage.ts";
import { openTemporaryStore } from "../../support/stores/temporary-store.ts";

const encode = (text: string) => new TextEncoder().encode(text);
const NONSENSE = ["", "nonsense", "null", "7", "[]", "{}", '{"kind":"other"}', '{"kind":7}', '{"kind":"live"}'].map(
  encode,
);
NONSENSE.push(Uint8Array.of(0xff, 0xfe, 0, 10, 10));

test("a message that does not match its schema is ignored", () => {
  const Greeting = z.object({ hello: z.string() });
  expect(readMessage(Greeting, encode('{"hello":"世界"}'))).toEqual({ hello: "世界" });
  for (const message of NONSENSE) expect(readMessage(Greeting, message)).toBeUndefined();
});

test("malformed messages on the topics of a connection and of its floor affect no reader", async () => {
  const clock = new SystemClock();
  const bus = new MemoryBus();
  const store = await openTemporaryStore(clock);
  const { url } = await openGateway({ store, bus, clock });
  const floorId = "u:ann" as FloorId;
  const connection = await SseReader.open(`${url}/events`);
  const floor = await SseReader.open(`${url}/floor/${encodeURIComponent(floorId)}/events`);
  const topic = connectionTopic(store.epoch, String((await connection.next()).data["connectionId"]) as ConnectionId);
  for (const message of NONSENSE) {
    await bus.publish(topic, message);
    await bus.publish(floorTopic(store.epoch, floorId), message);
  }
  const at = new Date(clock.now()).toISOString();
  const body = `{"type":"error","data":{"errorCode":"rejected","message":"no"},"timestamp":"${at}"}`;
  await bus.publish(topic, encode(JSON.stringify({ kind: "live", body })));
  expect((await connection.find("error")).data).toEqual({ errorCode: "rejected", message: "no" });
  await Promise.all([connection.close(), floor.close()]);
});
