import { expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { MAX_BUS_MESSAGE } from "../../../src/bus/bus.ts";
import { NewsTopic } from "../../../src/gateway/deliveries/news-topic.ts";
import { UnreliableBus } from "../../support/networks/unreliable-bus.ts";
import { turn, VirtualClock } from "../../support/runner/virtual-clock.ts";

const News = z.object({ n: z.number(), commandId: z.string() });

/** Two nodes on a bus. `sizes`: the bytes of each message. */
async function makeTopics() {
  const sizes: number[] = [];
  const bus = new UnreliableBus();
  const publish = bus.publish.bind(bus);
  bus.publish = (topic, message) => {
    sizes.push(message.byteLength);
    return publish(topic, message);
  };
  const clock = new VirtualClock();
  const heard = { here: [] as number[], there: [] as number[] };
  const open = (by: keyof typeof heard) => {
    const topic = new NewsTopic({ bus, topic: "news", schema: News, clock, receive: ({ n }) => heard[by].push(n) });
    onTestFinished(() => topic.close());
    return topic;
  };
  const [here, there] = [open("here"), open("there")];
  await turn();
  return { bus, sizes, heard, here, there };
}

const news = (n: number, commandId = "c") => ({ n, commandId });

test("news that can wait travel with the next ones, before them, and a node hears nothing of its own", async () => {
  const { sizes, heard, here } = await makeTopics();
  here.publishSoon(news(1));
  here.publishSoon(news(2));
  here.publish(news(3));
  expect(sizes).toHaveLength(1);
  here.publishSoon(news(4));
  await turn();
  expect([sizes.length, heard]).toEqual([2, { here: [], there: [1, 2, 3, 4] }]);
});

test("who catches up in one iteration shares a mark, and has what was told before it", async () => {
  const { sizes, heard, here, there } = await makeTopics();
  const before = [here.catchUp(), here.catchUp()];
  there.publish(news(1));
  await Promise.all(before);
  expect([sizes.length, heard]).toEqual([2, { here: [1], there: [] }]);
  await here.catchUp();
  expect(sizes).toHaveLength(3);
});

test("a burst of news is told whole, in messages that the bus takes", async () => {
  const { sizes, heard, here } = await makeTopics();
  const all = Array.from({ length: 1_000 }, (_, n) => n);
  for (const n of all) here.publishSoon(news(n, "x".repeat(512)));
  await turn();
  expect(heard.there).toEqual(all);
  expect(Math.max(...sizes)).toBeLessThan(MAX_BUS_MESSAGE);
});

test("what is neither news nor a mark is ignored, and of a list only what is not known", async () => {
  const { bus, heard, here } = await makeTopics();
  for (const text of ["", "[", "[]", `${"f".repeat(36)}[{}]`, `${"f".repeat(36)}m1`, `${"f".repeat(36)}{"n":1}`])
    await bus.publish("news", Buffer.from(text));
  await bus.publish("news", Buffer.from(`${"f".repeat(36)}[{"later":1},${JSON.stringify(news(4))}]`));
  here.publish(news(5));
  await turn();
  expect(heard).toEqual({ here: [4], there: [4, 5] });
});
