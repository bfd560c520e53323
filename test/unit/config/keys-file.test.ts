import { tmpdir } from "node:os";
import { expect, it, onTestFinished } from "vitest";
import { loadKeys, readKeys } from "../../../src/config/keys-file.ts";
import { writeTemporary } from "../../support/clients/callers.ts";

const HASH = "a".repeat(64);
const OTHER = "0123456789abcdef".repeat(4);

/** Each fault as `line path: message`. */
function faultsOf(text: string): string[] {
  const reading = readKeys(text);
  return reading.ok ? [] : reading.faults.map(({ line, path, message }) => `${line} ${path}: ${message}`);
}

const fileOf = (content: string | Uint8Array) => writeTemporary("keys.yaml", content, onTestFinished);

it("a file of keys names the owner of each key, and the operators", async () => {
  const text = `keys:\n  - owner: ann\n    sha256: ${HASH}\n  - { owner: "the ops", operator: true, sha256: ${OTHER} }\n`;
  expect(await loadKeys(await fileOf(text))).toEqual([
    { owner: "ann", sha256: HASH, operator: false },
    { owner: "the ops", sha256: OTHER, operator: true },
  ]);
});

it("a file of keys may give one owner several keys, so that a key can be replaced", () => {
  expect(readKeys(`keys:\n- {owner: a, sha256: ${HASH}}\n- {owner: a, sha256: ${OTHER}}`).ok).toBe(true);
});

it("a file of keys is refused for its number of parts before it is parsed, and for its nesting", () => {
  expect(faultsOf("[".repeat(4_000_000))).toEqual([expect.stringMatching(/^1 : the text has too many parts/)]);
  expect(faultsOf(`keys: ${"{a: ".repeat(100)}`)).toEqual([expect.stringMatching(/^1 : maps and lists are nested/)]);
});

it("a file of keys is refused with all its faults, each with its line", () => {
  const text = [
    "keys:",
    "  - owner: ann",
    "    sha256: short",
    "  - sha256: ABCDEF",
    "  - owner: ''",
    "    key: hunter2",
    `    sha256: ${HASH}`,
    "    operator: very",
    "extra: 1",
  ].join("\n");
  expect(faultsOf(text)).toEqual([
    "3 keys[0].sha256: must be the SHA-256 of a key: 64 of 0-9 a-f",
    "4 keys[1].owner: is missing; it must be text",
    "4 keys[1].sha256: must be the SHA-256 of a key: 64 of 0-9 a-f",
    "5 keys[2].owner: must be 1 to 128 characters without control characters",
    "6 keys[2].key: is not a known key; known here: owner, sha256, operator",
    "8 keys[2].operator: must be true or false",
    "9 extra: is not a known key; known here: keys",
  ]);
});

it("a file of keys may not repeat a key, because its owner would be ambiguous", () => {
  expect(faultsOf(`keys:\n  - {owner: a, sha256: ${HASH}}\n  - {owner: b, sha256: ${HASH}}`)).toEqual([
    "3 keys[1].sha256: is a duplicate",
  ]);
});

it.each([
  ["", "1 : the file is empty: it needs a list of keys"],
  ["keys: []", "1 keys: must not be empty"],
  ["keys: hunter2", "1 keys: must be a list"],
  ["- a", "1 : must be a map of keys and values"],
])("a file of keys is refused when it is %j", (text, fault) => {
  expect(faultsOf(text)).toEqual([fault]);
});

it("the faults of a file of keys never repeat its contents", () => {
  const key = "7c1f0e77a2d14d0f";
  for (const text of [key, `keys: ${key}`, `keys: [${key}]`, `keys: [{owner: 7, sha256: ${key}, operator: ${key}}]`]) {
    expect(faultsOf(text).length).toBeGreaterThan(0);
    expect(faultsOf(text).join()).not.toContain(key);
  }
});

it("an unreadable file of keys is reported in a sentence", async () => {
  await expect(loadKeys("/nowhere/keys.yaml")).rejects.toThrow(
    "the keys cannot be used\n/nowhere/keys.yaml:1:1 there is no such file",
  );
  await expect(loadKeys(tmpdir())).rejects.toThrow("the file cannot be read: it is not a regular file");
  await expect(loadKeys(await fileOf(Uint8Array.of(0xff, 0xfe, 0)))).rejects.toThrow("the file is not UTF-8 text");
  await expect(loadKeys(await fileOf("#".repeat(4_194_305)))).rejects.toThrow("the file is larger than 4 MiB");
  const faulty = await fileOf("keys:\n  - owner: ann\n    sha256: hunter2\n");
  await expect(loadKeys(faulty)).rejects.toThrow(
    `the keys cannot be used\n${faulty}:3:13 keys[0].sha256: must be the SHA-256`,
  );
});
