import { describe, expect, test } from "vitest";
import { SimClock } from "../sim-clock.ts";
import { Life } from "./life.ts";

/** A process that asks the world for something every 10 ms, and records the answers. */
function begin() {
  const clock = new SimClock();
  const life = new Life("n1", clock, 5);
  const begunAt = clock.now();
  const received: string[] = [];
  const asked: number[] = [];
  const ask = (what: string) =>
    life.call<string>((done) => {
      asked.push(clock.now() - begunAt);
      clock.after(20, () => done(what));
    });
  const live = async () => {
    for (let turn = 0; ; turn++) {
      await new Promise<void>((resolve) => void life.clock.after(10, resolve));
      received.push(await ask(`answer ${turn}`));
    }
  };
  void live();
  const pass = (ms: number) => clock.runUntil(clock.now() + ms, () => false);
  return { life, clock, begunAt, received, asked, pass };
}

describe("a process", () => {
  test("a process has its own clock, and gets the answers to its requests", async () => {
    const { life, clock, received, pass } = begin();
    expect(life.clock.now()).toBe(clock.now() + 5);
    await pass(60);
    expect(received).toEqual(["answer 0", "answer 1"]);
  });

  test("a dead process receives nothing, sends nothing, and its waits never end", async () => {
    const { life, received, asked, pass } = begin();
    await pass(15);
    life.die();
    life.wake({ losesMessages: false });
    await pass(1_000);
    expect([received, asked]).toEqual([[], [10]]);
  });

  test("a process can die in the middle of its work: earlier work stays done", async () => {
    const { life, received, asked, pass } = begin();
    life.dieAfter(2);
    await pass(1_000);
    expect([received, asked, life.isDead]).toEqual([["answer 0", "answer 1"], [10, 40], true]);
  });

  test("a sleeping process receives everything in order when it wakes, and continues", async () => {
    const { life, received, pass } = begin();
    await pass(15);
    life.sleep();
    for (const name of ["first", "second"]) life.enter(() => received.push(name), true);
    await pass(1_000);
    expect(received).toEqual([]);
    life.wake({ losesMessages: false });
    await pass(5);
    expect(received).toEqual(["first", "second", "answer 0"]);
    await pass(40);
    expect(received).toHaveLength(4);
  });

  test("a waking process may have lost its messages, and nothing else", async () => {
    const { life, received, pass } = begin();
    await pass(15);
    life.sleep();
    life.enter(() => received.push("message"), true);
    await pass(100);
    life.wake({ losesMessages: true });
    await pass(5);
    expect(received).toEqual(["answer 0"]);
  });

  test("a process does not call a timer that it cancelled before it woke", async () => {
    const { life, pass, received } = begin();
    const timer = life.clock.after(5, () => received.push("timer"));
    life.sleep();
    await pass(100);
    timer.cancel();
    life.wake({ losesMessages: false });
    await pass(5);
    expect(received).toEqual([]);
  });
});
