import { expect, test } from "vitest";
import { Misfits } from "../../../../src/cli/mqtt/misfits.ts";
import { Outbox } from "../../../../src/cli/mqtt/outbox.ts";
import { RetainedStates } from "../../../../src/cli/mqtt/retained-states.ts";

/** A broker that keeps what it is given, and can be away. */
class KeepingBroker {
  isUp = true;
  readonly taken: [topic: string, payload: string][] = [];
  readonly refused: string[] = [];
  #waiting: (() => void)[] = [];
  outbox = new Outbox(
    () => this,
    (topic) => this.refused.push(topic),
  );

  async publish(topic: string, payload: string): Promise<void> {
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
    if (!this.isUp) throw new Error("the broker is away");
    if (topic === "forbidden") throw new Error("not authorized");
    this.taken.push([topic, payload]);
  }

  /** Answer all that is under way, also what follows it. */
  async answer(): Promise<void> {
    while (this.#waiting.length > 0) {
      for (const each of this.#waiting.splice(0)) each();
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

const state = (topic: string, payload: string) => ({ topic, payload, isRetained: true });

test("while the broker is away nothing is kept but the newest message of each key", async () => {
  const broker = new KeepingBroker();
  broker.isUp = false;
  for (let n = 0; n < 10_000; n++) broker.outbox.put(`t${n % 2}`, state(`t${n % 2}`, `${n}`));
  expect(broker.outbox.size).toBe(2);
  broker.isUp = true;
  broker.outbox.flush();
  await broker.answer();
  expect([broker.taken, broker.outbox.size]).toEqual([
    [
      ["t0", "9998"],
      ["t1", "9999"],
    ],
    0,
  ]);
});

test("a message that was under way when the broker went away is sent again, and a newer one in its place", async () => {
  const broker = new KeepingBroker();
  broker.outbox.put("a", state("a", "1"));
  broker.outbox.put("b", state("b", "1"));
  broker.isUp = false;
  await broker.answer();
  broker.outbox.put("b", state("b", "2"));
  broker.isUp = true;
  broker.outbox.flush();
  await broker.answer();
  expect(broker.taken).toEqual([
    ["a", "1"],
    ["b", "2"],
  ]);
});

test("a message that the broker does not take is dropped and said, and does not hold up others", async () => {
  const broker = new KeepingBroker();
  broker.outbox.put("x", state("forbidden", "1"));
  broker.outbox.put("a", state("a", "1"));
  await broker.answer();
  expect([broker.refused, broker.taken, broker.outbox.size]).toEqual([["forbidden"], [["a", "1"]], 0]);
});

test("only differences are published, and topics of a group that should not exist are cleared", async () => {
  const broker = new KeepingBroker();
  const states = new RetainedStates(broker.outbox);
  const isOurs = (topic: string) => topic.startsWith("f/");
  const wanted = new Map([
    ["f/holder", "new"],
    ["f/heard", "[]"],
  ]);
  states.learn("f/holder", "old");
  states.learn("f/session/gone", "{}");
  states.learn("g/holder", "other");
  states.set("f", wanted, isOurs);
  await broker.answer();
  expect(broker.taken.splice(0)).toEqual([...wanted, ["f/session/gone", ""]]);
  states.set("f", wanted, isOurs);
  await broker.answer();
  expect(broker.taken).toEqual([]);
  // A broker that has lost everything, and one that kept an old state.
  states.forget();
  states.learn("f/holder", "old");
  states.learn("f/session/gone", "{}");
  states.compare();
  await broker.answer();
  expect(broker.taken).toEqual([...wanted, ["f/session/gone", ""]]);
});

test("messages that are left alone are counted, and said once a minute", async () => {
  const lines: string[] = [];
  const misfits = new Misfits(
    (line) => lines.push(line),
    () => 0,
  );
  for (let n = 0; n < 1_000; n++) misfits.note("no_json", `t${n}`);
  await expect.poll(() => lines).toEqual(["1000 messages were left alone, the last one in t999: no JSON"]);
  misfits.note("no_json", "t");
  misfits.stop();
  expect(lines).toHaveLength(1);
});
