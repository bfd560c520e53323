import { existsSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { MemoryBus } from "../../src/bus/memory-bus.ts";
import { Mailbox } from "../../src/cluster/mailbox.ts";
import { RollCall } from "../../src/cluster/roll-call.ts";
import type { Settings } from "../../src/config/settings.ts";
import { type App, createApp } from "../../src/node/app.ts";
import { DefinedCatalog } from "../../src/node/defined-catalog.ts";
import { Orchestrator } from "../../src/node/orchestrator.ts";
import { AppError } from "../../src/protocol/errors.ts";
import { MemoryQueue } from "../../src/queue/memory-queue.ts";
import { Worker } from "../../src/runs/worker.ts";
import type { Logger } from "../../src/shared/ports/logger.ts";
import { settingsOf } from "../support/catalogs/settings.ts";
import { keysFile } from "../support/clients/callers.ts";
import { makeFolder } from "../support/stores/sqlite-place.ts";

/** Some start a node dozens of times. */
vi.setConfig({ testTimeout: 120_000 });

const KEY = "a-key-of-ann-that-is-long-enough";
const HEADERS = { authorization: `Bearer ${KEY}`, "content-type": "application/json", connection: "close" };

/** Nodes on one database file, one after the other. */
async function makeNodes() {
  const { folder } = await makeFolder(onTestFinished);
  const config = join(folder, "agents.yaml");
  const pids = join(folder, "pids");
  const lasting = `echo $$ >> ${pids}; exec /bin/sleep 600`;
  const adapter = { kind: "command", command: "/bin/sh", args: ["-c", lasting], restartable: true };
  await writeFile(config, JSON.stringify({ agents: [{ name: "general" }, { name: "lasting", adapter }] }));
  const keys = join(folder, "keys.json");
  await writeFile(keys, keysFile([{ owner: "ann", key: KEY, operator: true }]));
  const file = join(folder, "made", "interlock.db");
  const settings = settingsOf({
    PORT: "0",
    INTERLOCK_STORE: `sqlite:${file}`,
    INTERLOCK_CONFIG: config,
    INTERLOCK_AUTH: `keys:${keys}`,
    LOG_LEVEL: "silent",
  });
  /** The facts and the sentences of warnings and errors. */
  const logged: object[] = [];
  const keep = (facts: object, message: string) => void logged.push({ ...facts, message });
  const log: Logger = { debug() {}, info() {}, warn: keep, error: keep };
  const make = (own: Settings = settings) => createApp({ settings: own, env: {}, log });
  /** The processes that the agent `lasting` has started, as far as they live. */
  const programs = () => {
    const all = existsSync(pids) ? readFileSync(pids, "utf8").trim().split("\n").map(Number) : [];
    return all.filter((pid) => existsSync(`/proc/${pid}`));
  };
  return { make, file, settings, logged, programs };
}

/** What keeps this process alive: sockets, timers, threads, programs, watched files. */
const held = () => process.getActiveResourcesInfo().filter((kind) => kind !== "Immediate");

/** A pause that keeps nothing alive, and so is not among what this process holds. */
const rest = () => new Promise((resolve) => setTimeout(resolve, 2).unref());

/**
 * What this process holds while it does nothing: a timer or a socket that is about to end would hide one that stays.
 */
async function heldAtRest(): Promise<string[]> {
  for (;;) {
    const now = held();
    if (!now.includes("Timeout") && !now.includes("CloseReq")) return now;
    await rest();
  }
}

/** Wait until this process holds nothing that it did not hold before. */
async function expectNothingLeft(before: readonly string[]): Promise<void> {
  for (let rests = 0; ; rests++) {
    const left = held();
    for (const kind of before) if (left.includes(kind)) left.splice(left.indexOf(kind), 1);
    if (left.length === 0) return;
    if (rests > 5_000) expect(left).toEqual([]);
    await rest();
  }
}

async function expectServes(app: App): Promise<void> {
  const { url } = await app.start();
  try {
    expect((await fetch(`${url}/ready`, { headers: { connection: "close" } })).status).toBe(200);
    await expect(app.start()).rejects.toThrow("this app has already been started");
  } finally {
    await app.stop();
  }
}

/** The next stop of such a part does its work, and then throws this error. */
function letStick({ prototype }: { prototype: object }, message: string): void {
  const part = prototype as { stop: (...args: unknown[]) => unknown };
  const { stop } = part;
  const fail = () => {
    throw new Error(message);
  };
  vi.spyOn(part, "stop").mockImplementationOnce(function (this: unknown, ...args) {
    const stopped = stop.apply(this, args);
    return stopped instanceof Promise ? stopped.then(fail) : fail();
  });
}

/** A method of a part; the parts that a start makes call it. */
type Method = [name: string, part: { prototype: object }, method: string];

const METHODS: Method[] = [
  ["defined catalogue", DefinedCatalog, "start"],
  ["mailbox", Mailbox, "start"],
  ["worker", Worker, "start"],
  ["orchestrator", Orchestrator, "start"],
  ["roll call", RollCall, "start"],
  ["subscription to the bus", MemoryBus, "subscribe"],
  ["processing of the queue", MemoryQueue, "process"],
];

test.each(METHODS)(
  "a node whose %s fails, before or after its work, leaves nothing open, and starts again",
  async (_, part, method) => {
    const { make, logged } = await makeNodes();
    const before = await heldAtRest();
    const original = Reflect.get(part.prototype, method) as (...args: unknown[]) => Promise<unknown>;
    /** The calls of this start, and the one of them that fails. */
    let [count, failing, isLate] = [0, 0, false];
    const spy = vi.spyOn(part.prototype as Record<string, () => unknown>, method);
    spy.mockImplementation(async function (this: unknown, ...args: unknown[]) {
      count += 1;
      if (count !== failing) return await original.apply(this, args);
      if (isLate) await original.apply(this, args);
      throw new Error("halfway");
    });
    async function failAt(call: number, late: boolean): Promise<App> {
      [count, failing, isLate] = [0, call, late];
      const app = make();
      await expect(app.start()).rejects.toThrow("halfway");
      await expectNothingLeft(before);
      return app;
    }
    const app = await failAt(1, false);
    [count, failing] = [0, 0];
    await expectServes(app);
    await expectNothingLeft(before);
    const calls = count;
    expect(calls).toBeGreaterThan(0);
    for (let call = 2; call <= calls; call++) await failAt(call, false);
    for (let call = 1; call <= calls; call++) await failAt(call, true);
    expect(logged).toEqual([]);
  },
);

test("a node whose start fails at any setting that it reads leaves nothing open, and the next one starts", async () => {
  const { make, settings } = await makeNodes();
  const before = await heldAtRest();
  const read = new Set<string | symbol>();
  const watched = (onRead: (name: string | symbol) => void) =>
    new Proxy(settings, {
      get(target, name) {
        onRead(name);
        return Reflect.get(target, name);
      },
    });
  await expectServes(make(watched((name) => read.add(name))));
  await expectNothingLeft(before);
  for (const faulty of read) {
    const fail = (name: string | symbol) => {
      if (name === faulty) throw new Error(`${String(name)} cannot be read`);
    };
    await expect(make(watched(fail)).start()).rejects.toThrow(`${String(faulty)} cannot be read`);
    await expectNothingLeft(before);
  }
  expect(read.size).toBeGreaterThan(20);
  await expectServes(make());
});

test("a start in which a server does not answer begins again, whatever step has asked it, and says so once", async () => {
  const { make, logged } = await makeNodes();
  const before = await heldAtRest();
  const away = new AppError("unavailable", "the members cannot be read at the moment");
  for (const [, part, method] of METHODS)
    vi.spyOn(part.prototype as Record<string, () => unknown>, method).mockRejectedValueOnce(away);
  await expectServes(make());
  await expectNothingLeft(before);
  const message = "a server does not answer; the start waits for it";
  expect(logged).toEqual([{ reason: away.message, waitMs: 20_000, message }]);
});

test("if parts cannot be closed after a failed start, the log names each, the others are closed, and the first error is thrown", async () => {
  const { make, logged } = await makeNodes();
  const before = await heldAtRest();
  vi.spyOn(RollCall.prototype, "start").mockRejectedValueOnce(new Error("halfway"));
  letStick(Worker, "the worker sticks");
  letStick(Mailbox, "the mailbox sticks");
  await expect(make().start()).rejects.toThrow("halfway");
  const message = "a part of the node could not be closed";
  expect(logged).toMatchObject([
    { part: "worker", err: { message: "the worker sticks" }, message },
    { part: "mailbox", err: { message: "the mailbox sticks" }, message },
  ]);
  await expectNothingLeft(before);
  await expectServes(make());
});

test("a step that fails and cannot close what it opened is reported with its own error", async () => {
  const { make, logged } = await makeNodes();
  vi.spyOn(DefinedCatalog.prototype, "start").mockRejectedValueOnce(new Error("halfway"));
  vi.spyOn(DefinedCatalog.prototype, "stop").mockRejectedValueOnce(new Error("the definitions stick"));
  await expect(make().start()).rejects.toThrow("halfway");
  expect(logged).toMatchObject([{ err: { message: "the definitions stick" } }]);
});

test("a stop closes all parts although one cannot be closed, and throws its error", async () => {
  const { make, logged } = await makeNodes();
  const before = await heldAtRest();
  letStick(Orchestrator, "the orchestrator sticks");
  const app = make();
  await app.start();
  await expect(app.stop()).rejects.toThrow("the orchestrator sticks");
  expect(logged).toMatchObject([{ part: "orchestrator" }]);
  await expectNothingLeft(before);
});

test("a stop during a start ends it at any step, and nothing is left open", async () => {
  const { make } = await makeNodes();
  const before = await heldAtRest();
  for (const [, part, method] of METHODS) {
    const original = Reflect.get(part.prototype, method) as (...args: unknown[]) => Promise<unknown>;
    const app = make();
    let stopped: Promise<void>[] = [];
    const spy = vi.spyOn(part.prototype as Record<string, () => unknown>, method);
    spy.mockImplementation(async function (this: unknown, ...args: unknown[]) {
      if (stopped.length === 0) stopped = [app.stop(), app.stop()];
      return await original.apply(this, args);
    });
    await expect(app.start()).rejects.toThrow("the node was stopped while it started");
    await Promise.all(stopped);
    spy.mockRestore();
    await expectNothingLeft(before);
    await expect(app.start()).rejects.toThrow("this app has already been started");
  }
});

test("an app touches no file before it starts, starts once, and may be stopped then, not before", async () => {
  const { make, file } = await makeNodes();
  const app = make();
  expect(existsSync(dirname(file))).toBe(false);
  await expect(app.stop()).rejects.toThrow("this app has not been started");
  await expectServes(app);
  expect(existsSync(file)).toBe(true);
  await expect(app.stop()).resolves.toBeUndefined();
});

test("a run that a failing start has taken is given back, its program ends, and the next node takes it", async () => {
  const { make, settings, programs } = await makeNodes();
  const before = await heldAtRest();
  const first = make({ ...settings, drainMs: 100 });
  const { url } = await first.start();
  const post = async (path: string, body: object) => {
    const answer = await fetch(`${url}${path}`, { method: "POST", headers: HEADERS, body: JSON.stringify(body) });
    expect(answer.status).toBe(200);
  };
  await post("/session/create", { id: "long", agentId: "lasting", userId: "ann", activate: true });
  await post("/message", { type: "chat", sessionId: "long", userId: "ann", content: "go" });
  await vi.waitFor(() => expect(programs()).toHaveLength(1), 30_000);
  await first.stop();
  expect(programs()).toEqual([]);

  vi.spyOn(RollCall.prototype, "start").mockImplementationOnce(async () => {
    await vi.waitFor(() => expect(programs()).toHaveLength(1), 30_000);
    throw new Error("halfway");
  });
  await expect(make().start()).rejects.toThrow("halfway");
  expect(programs()).toEqual([]);
  await expectNothingLeft(before);

  const last = make({ ...settings, drainMs: 100 });
  await last.start();
  await vi.waitFor(() => expect(programs()).toHaveLength(1), 30_000);
  await last.stop();
  expect(programs()).toEqual([]);
});
