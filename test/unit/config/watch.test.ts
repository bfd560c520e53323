import { watch } from "node:fs";
import { mkdir, readdir, readFile, rename, symlink, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, onTestFinished } from "vitest";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import { loadCatalog } from "../../../src/config/catalog/catalog-file.ts";
import { WatchedCatalog, type WatchOptions } from "../../../src/config/catalog/watched-catalog.ts";
import { catalogOf } from "../../support/catalogs/catalog-faults.ts";
import { HandClock, POLL_MS, RealClock, ReceivedLog, STABLE_MS } from "../../support/catalogs/watched-file.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

const A = "agents: [{ name: a }]\n";
const AB = "agents: [{ name: a }, { name: b }]\n";
const ABC = "agents: [{ name: a, priority: 7 }, { name: b }, { name: c }]\npolicy: { ties: newest }\n";
const BAD = "agents: [{ name: a, priority: 700 }]\n";
const REPLACED = "the catalogue was replaced";
const FAULTY = "the catalogue has faults; the previous one stays in use";
const MENDED = "the catalogue has no faults again and is unchanged";

let folder: string;
let remove: () => Promise<void>;
let path: string;
let log: ReceivedLog;
let watched: WatchedCatalog | undefined;

beforeEach(async () => {
  ({ folder, remove } = await makeFolder());
  path = join(folder, "agents.yaml");
  log = new ReceivedLog();
});

afterEach(async () => {
  await watched?.close();
  watched = undefined;
  await remove();
});

function follow(options: Partial<WatchOptions> = {}) {
  const catalog = new WatchedCatalog({
    path,
    initial: catalogOf(A),
    clock: new RealClock(),
    log,
    stableMs: 5,
    // So long that a change can only be noticed by a file event.
    pollMs: 3_600_000,
    ...options,
  });
  watched = catalog;
  return { current: () => catalog.current(), status: () => catalog.status(), close: () => catalog.close() };
}

/** Watch the file, which has this text, by polls and with a clock that the test moves; one poll has found it. */
async function followByHand(text = A, options: Partial<WatchOptions> = {}) {
  await writeFile(path, text);
  const clock = new HandClock();
  const watching = follow({ clock, stableMs: STABLE_MS, pollMs: POLL_MS, ...options });
  await clock.poll();
  return { clock, ...watching };
}

const names = (catalog: Catalog) => [...catalog.agents.keys()];

/** Write a temporary file and rename it over the target, as many editors do. */
async function replaceFile(text: string): Promise<void> {
  await writeFile(`${path}.new`, text);
  await rename(`${path}.new`, path);
}

it("a file that is unreadable for a while is read once it is readable, even without a new signature", async () => {
  let isReadable = false;
  const faults = [{ line: 1, column: 1, path: "", message: "the file cannot be read: EMFILE" }];
  const { clock, current, status } = await followByHand(AB, {
    load: async (file) => (isReadable ? loadCatalog(file) : { ok: false, faults, unreadable: "refused" }),
  });
  for (let polls = 0; polls < 5; polls++) await clock.poll();
  expect(status().faults).toEqual(faults);
  isReadable = true;
  await clock.poll();
  expect(names(current())).toEqual(["a", "b"]);
  expect(status().faults).toBeUndefined();
});

it("an unchanged file that polls read again is not parsed again", async () => {
  const parsed: boolean[] = [];
  const { clock, current } = await followByHand(AB, {
    load: async (file, known) => {
      const reading = await loadCatalog(file, known);
      parsed.push(!reading.ok || reading.catalog !== known);
      return reading;
    },
  });
  for (let polls = 0; polls < 5; polls++) await clock.poll();
  expect(names(current())).toEqual(["a", "b"]);
  expect(parsed.length).toBeGreaterThan(1);
  expect(parsed).toEqual([true, ...parsed.slice(1).map(() => false)]);
});

it("a valid file that is written in place replaces the whole catalogue, and the log says what changed", async () => {
  await writeFile(path, A);
  const seen: Catalog[] = [];
  const { current, status } = follow({ onChange: (catalog) => seen.push(catalog) });
  await writeFile(path, ABC);
  const { facts, level } = await log.until(REPLACED);
  expect(level).toBe("info");
  expect(facts).toMatchObject({ added: ["b", "c"], removed: [], changed: ["a"], parts: ["policy"] });
  expect(facts["hash"]).toBe(catalogOf(ABC).hash);
  expect(current()).toEqual(catalogOf(ABC));
  expect(seen).toEqual([current()]);
  expect(status()).toEqual({ hash: catalogOf(ABC).hash, loadedAt: expect.any(Number) });
});

it("a valid file that appears when a link is switched is noticed, as in a mounted ConfigMap", async () => {
  for (const [version, text] of [["v1", A] as const, ["v2", AB] as const, ["v3", ABC] as const]) {
    await mkdir(join(folder, version));
    await writeFile(join(folder, version, "agents.yaml"), text);
  }
  await symlink("v1", join(folder, "..data"));
  await symlink(join("..data", "agents.yaml"), path);
  const { current } = follow();
  for (const [version, text] of [["v2", AB] as const, ["v3", ABC] as const]) {
    await symlink(version, join(folder, "..data_tmp"));
    await rename(join(folder, "..data_tmp"), join(folder, "..data"));
    expect(await log.next()).toMatchObject({ text: REPLACED });
    expect(current().hash).toBe(catalogOf(text).hash);
  }
});

it("a valid file that changed between boot and the watch is noticed", async () => {
  await writeFile(path, AB);
  const { current } = follow();
  expect(await log.next()).toMatchObject({ text: REPLACED });
  expect(names(current())).toEqual(["a", "b"]);
});

it("a valid file takes effect although a listener throws", async () => {
  await writeFile(path, A);
  const { current } = follow({
    onChange: () => {
      throw new Error("deaf");
    },
  });
  await replaceFile(AB);
  expect(await log.next()).toMatchObject({ text: REPLACED });
  expect(await log.next()).toMatchObject({ level: "error", text: "a catalogue listener failed" });
  await replaceFile(ABC);
  expect(await log.next()).toMatchObject({ text: REPLACED });
  expect(names(current())).toEqual(["a", "b", "c"]);
});

it.each([
  ["a valid catalogue", AB],
  ["faulty", "agents: [{ name: a"],
  ["empty", ""],
])("a file that is written in parts is read once it stays the same, although a part of it is %s", async (_, part) => {
  const seen: Catalog[] = [];
  const onChange = (catalog: Catalog) => seen.push(catalog);
  const { clock, current, status } = await followByHand(A, { onChange });
  for (const text of [part, `${part} `, `${part}  `, ABC]) {
    await writeFile(path, text);
    await clock.settle();
    await clock.looked();
    expect(names(current())).toEqual(["a"]);
    expect(status()).not.toHaveProperty("faults");
  }
  await clock.settleUntil(log.next());
  expect(seen.map(names)).toEqual([["a", "b", "c"]]);
  expect(log.all).toMatchObject([{ text: REPLACED }]);
});

it("a file that is written in parts is read once it stays the same, although the clock was set back", async () => {
  const { clock, current } = await followByHand();
  await writeFile(path, AB);
  await clock.settle();
  await clock.looked();
  clock.setBack();
  await clock.settleUntil(log.next());
  expect(names(current())).toEqual(["a", "b"]);
});

it("a faulty file changes nothing; its faults are logged, and kept until a valid one replaces it, even the former one", async () => {
  await writeFile(path, A);
  const { current, status } = follow();
  const before = current();
  for (const [mended, text] of [
    [A, MENDED],
    [AB, REPLACED],
  ] as const) {
    await replaceFile(BAD);
    expect(await log.next()).toMatchObject({ level: "error", text: FAULTY });
    expect(current()).toBe(before);
    expect(status()).toMatchObject({
      hash: before.hash,
      faults: [{ line: 1, column: 31, path: "agents[0].priority", message: "must be at most 100, not 700" }],
    });
    await replaceFile(mended);
    expect(await log.next()).toMatchObject({ level: "info", text });
    expect(status()).not.toHaveProperty("faults");
    expect(current() === before).toBe(mended === A);
  }
});

it("a file that is missing for a moment is not a fault", async () => {
  const { clock, current } = await followByHand();
  await unlink(path);
  await clock.poll();
  await writeFile(path, AB);
  await clock.poll();
  expect(await clock.settleUntil(log.next())).toMatchObject({ text: REPLACED });
  expect(names(current())).toEqual(["a", "b"]);
  expect(log.all).toHaveLength(1);
});

it("a file that is missing for longer is a fault, reported once, until it returns", async () => {
  const { clock, current, status } = await followByHand();
  await unlink(path);
  for (let polls = 0; polls < 5; polls++) await clock.poll();
  expect(await log.next()).toMatchObject({ level: "error", text: FAULTY });
  expect(status()).toMatchObject({ faults: [{ message: "there is no such file" }] });
  expect(names(current())).toEqual(["a"]);
  await writeFile(path, A);
  await clock.poll();
  expect(await clock.settleUntil(log.next())).toMatchObject({ text: MENDED });
  expect(log.all).toHaveLength(2);
});

it("polling notices a change behind a link into another folder", async () => {
  const { folder: elsewhere } = await makeFolder(onTestFinished);
  await writeFile(join(elsewhere, "real.yaml"), A);
  await symlink(join(elsewhere, "real.yaml"), path);
  const { clock, status } = await followByHand();
  await writeFile(join(elsewhere, "real.yaml"), AB);
  await clock.poll();
  expect(await clock.settleUntil(log.next())).toMatchObject({ text: REPLACED });
  expect(status().loadedAt).toBe(clock.now());
});

it("polling finds the folder again after it was replaced, and watches the new one", async () => {
  const inner = join(folder, "inner");
  path = join(inner, "agents.yaml");
  await mkdir(inner);
  const { clock, current } = await followByHand();
  await rename(inner, join(folder, "old"));
  await mkdir(inner);
  await writeFile(path, AB);
  await clock.poll();
  // The start of the watch, and late events of the old folder's removal.
  await clock.settle();
  await clock.poll();
  expect(await log.next()).toMatchObject({ text: REPLACED });
  await replaceFile(ABC);
  expect(await clock.settleUntil(log.next())).toMatchObject({ text: REPLACED });
  expect(names(current())).toEqual(["a", "b", "c"]);
});

/** The kernel's watches of this process; undefined if the kernel does not list them. */
async function countWatches(): Promise<number | undefined> {
  const files = await readdir("/proc/self/fdinfo").catch(() => undefined);
  if (!files) return undefined;
  const texts = await Promise.all(files.map((file) => readFile(`/proc/self/fdinfo/${file}`, "utf8").catch(() => "")));
  return texts
    .join("\n")
    .split("\n")
    .filter((line) => line.startsWith("inotify")).length;
}

it("a busy folder rarely wakes the watch until the file is checked, and changes of the file are still noticed", async () => {
  await writeFile(path, A);
  const clock = new HandClock();
  let events = 0;
  const counted = ((name: string, options: object, listener: () => void) =>
    watch(name, options, () => {
      events += 1;
      listener();
    })) as typeof watch;
  const { current } = follow({ clock, watch: counted, stableMs: STABLE_MS, pollMs: POLL_MS });
  for (let round = 1; round <= 3; round++) {
    await clock.settle();
    // For example the database of a node.
    for (let write = 0; write < 100; write++) await writeFile(join(folder, "interlock.db-wal"), `${write}`);
    expect(events).toBeGreaterThan(0);
    // A watch that was about to start may report one more.
    expect(events).toBeLessThanOrEqual(2 * round);
  }
  await replaceFile(AB);
  expect(await clock.settleUntil(log.next())).toMatchObject({ text: REPLACED });
  expect(names(current())).toEqual(["a", "b"]);
});

it("a closed watch leaves no watcher and no timer, and changes nothing afterwards", async () => {
  await writeFile(path, A);
  const before = await countWatches();
  const clock = new RealClock();
  const { current, close } = follow({ clock });
  await replaceFile(AB);
  expect(await log.next()).toMatchObject({ text: REPLACED });
  // The last event of the replacement pauses the watch for a moment.
  if (before !== undefined) await expect.poll(countWatches).toBe(before + 1);
  // The file may or may not be read before the end.
  await replaceFile(ABC);
  await close();
  const kept = names(current());
  const loggedCount = log.all.length;
  await replaceFile(A);
  expect(await countWatches()).toBe(before);
  expect(clock.pending.size).toBe(0);
  expect(names(current())).toEqual(kept);
  expect(log.all).toHaveLength(loggedCount);
});

it("a catalogue's watch may be closed directly after its start, and twice", async () => {
  await writeFile(path, AB);
  const clock = new RealClock();
  const { close } = follow({ clock });
  await close();
  await close();
  expect(clock.pending.size).toBe(0);
  expect(log.all).toEqual([]);
});
