import { describe, expect, test } from "vitest";
import { AppError } from "../../../src/protocol/errors.ts";
import {
  type Carrier,
  GroupCommit,
  MAX_GROUP,
  MAX_WAITING,
  TransactionFailed,
} from "../../../src/store/group-commit.ts";

/** Carries out what it is told to, when it is told to. */
class HeldCarrier implements Carrier<string, string> {
  readonly groups: string[][] = [];
  readonly #asked: (() => void)[] = [];
  readonly #held: PromiseWithResolvers<string[]>[] = [];

  carryOut(jobs: string[]): Promise<string[]> {
    this.groups.push(jobs);
    const held = Promise.withResolvers<string[]>();
    this.#held.push(held);
    for (const tell of this.#asked.splice(0)) tell();
    return held.promise;
  }

  /** Resolves when there is a transaction that was asked for. */
  async asked(): Promise<void> {
    if (this.#held.length === 0) await new Promise<void>((resolve) => this.#asked.push(resolve));
  }

  commit(outcomes = this.groups.at(-1)!.map((job) => `${job} done`)): void {
    this.#held.pop()!.resolve(outcomes);
  }

  fail(error: unknown): void {
    this.#held.pop()!.reject(error);
  }
}

/** Fails every transaction that holds a job it does not like. */
class PickyCarrier implements Carrier<string, string> {
  readonly groups: string[][] = [];
  readonly #faults: Record<string, TransactionFailed>;

  constructor(faults: Record<string, TransactionFailed>) {
    this.#faults = faults;
  }

  async carryOut(jobs: string[]): Promise<string[]> {
    this.groups.push(jobs);
    for (const job of jobs) if (this.#faults[job]) throw this.#faults[job];
    return jobs.map((job) => `${job} done`);
  }
}

const unavailable = { name: "AppError", code: "unavailable" };

describe("group commit", () => {
  test("what arrives while a transaction is under way goes into the next one, in order", async () => {
    const carrier = new HeldCarrier();
    const commits = new GroupCommit(carrier);
    const first = commits.add("a");
    await carrier.asked();
    const rest = ["b", "c", "d"].map((job) => commits.add(job));
    carrier.commit();
    await carrier.asked();
    carrier.commit();
    expect(await Promise.all([first, ...rest])).toEqual(["a done", "b done", "c done", "d done"]);
    expect(carrier.groups).toEqual([["a"], ["b", "c", "d"]]);
  });

  test("what is asked for in one turn of the event loop shares a transaction", async () => {
    const carrier = new PickyCarrier({});
    const commits = new GroupCommit(carrier);
    const early = Promise.resolve().then(() => commits.add("b"));
    await Promise.all([commits.add("a"), early]);
    expect(carrier.groups).toEqual([["a", "b"]]);
  });

  test("nobody is answered before the transaction is", async () => {
    const carrier = new HeldCarrier();
    const commits = new GroupCommit(carrier);
    let answered = 0;
    const adds = ["a", "b"].map((job) => commits.add(job).finally(() => answered++));
    await carrier.asked();
    await new Promise(setImmediate);
    expect(answered).toBe(0);
    carrier.commit();
    await Promise.all(adds);
  });

  test("a transaction has a largest size", async () => {
    const carrier = new PickyCarrier({});
    const commits = new GroupCommit(carrier);
    await Promise.all(Array.from({ length: 2 * MAX_GROUP + 3 }, (_, n) => commits.add(`${n}`)));
    expect(carrier.groups.map((group) => group.length)).toEqual([MAX_GROUP, MAX_GROUP, 3]);
  });

  test("an outcome is given to the one it belongs to", async () => {
    const carrier = new HeldCarrier();
    const commits = new GroupCommit(carrier);
    const adds = ["a", "b", "c"].map((job) => commits.add(job));
    await carrier.asked();
    carrier.commit(["done", "conflict", "more"]);
    expect(await Promise.all(adds)).toEqual(["done", "conflict", "more"]);
  });

  test("an engine's fault fails the whole group, and the next one is tried", async () => {
    const carrier = new HeldCarrier();
    const commits = new GroupCommit(carrier);
    const cause = new TransactionFailed("engine", new Error("disk full"));
    const group = Promise.allSettled(["a", "b"].map((job) => commits.add(job)));
    await carrier.asked();
    const next = commits.add("c");
    carrier.fail(cause);
    expect(await group).toEqual(
      ["a", "b"].map(() => ({ status: "rejected", reason: expect.objectContaining(unavailable) })),
    );
    await carrier.asked();
    carrier.commit();
    expect(await next).toBe("c done");
    expect(carrier.groups).toEqual([["a", "b"], ["c"]]);
  });

  test("a fault it does not know counts as the engine's, with its cause", async () => {
    const carrier = new HeldCarrier();
    const add = new GroupCommit(carrier).add("a");
    await carrier.asked();
    const cause = new Error("?");
    carrier.fail(cause);
    await expect(add).rejects.toMatchObject({ ...unavailable, cause });
  });

  test("a fault in the data hurts only whose data it is", async () => {
    const fault = new TransactionFailed("data", new Error("no such message"));
    const carrier = new PickyCarrier({ b: fault, d: new TransactionFailed("taken", new Error("UNIQUE")) });
    const commits = new GroupCommit(carrier);
    const results = await Promise.allSettled(["a", "b", "c", "d", "e"].map((job) => commits.add(job)));
    expect(results).toEqual([
      { status: "fulfilled", value: "a done" },
      { status: "rejected", reason: fault },
      { status: "fulfilled", value: "c done" },
      { status: "fulfilled", value: "conflict" },
      { status: "fulfilled", value: "e done" },
    ]);
    expect(carrier.groups).toEqual([["a", "b", "c", "d", "e"], ["a"], ["b"], ["c"], ["d"], ["e"]]);
  });

  test("when the engine fails in the middle of a repeat, each hears what became of its own", async () => {
    const carrier = new PickyCarrier({
      a: new TransactionFailed("data", new Error("?")),
      b: new TransactionFailed("engine", new Error("?")),
    });
    const commits = new GroupCommit(carrier);
    const results = await Promise.allSettled(["a", "b", "c"].map((job) => commits.add(job)));
    expect(results[0]).toMatchObject({ reason: { name: "TransactionFailed" } });
    expect(results[1]).toMatchObject({ reason: unavailable });
    expect(results[2]).toMatchObject({ value: "c done" });
  });

  test("more than may wait is refused at once", async () => {
    const carrier = new HeldCarrier();
    const commits = new GroupCommit(carrier);
    const waiting = Array.from({ length: MAX_WAITING }, () => commits.add("x"));
    await expect(commits.add("one more")).rejects.toMatchObject(unavailable);
    for (let group = 0; group * MAX_GROUP < MAX_WAITING; group++) {
      await carrier.asked();
      carrier.commit();
    }
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(["x done"]));
  });

  test("closing answers what waits and refuses what comes", async () => {
    const carrier = new HeldCarrier();
    const commits = new GroupCommit(carrier);
    const add = commits.add("a");
    const closed = commits.close();
    const late = commits.add("b");
    await expect(late).rejects.toBeInstanceOf(AppError);
    await carrier.asked();
    carrier.commit();
    await closed;
    expect(await add).toBe("a done");
  });
});
