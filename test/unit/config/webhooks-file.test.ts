import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { Lexer } from "yaml";
import { readWebhooksFile } from "../../../src/config/webhooks-file.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

const SECRET = `whsec_${Buffer.alloc(24, 1).toString("base64")}`;
const OTHER = `whsec_${Buffer.alloc(32, 2).toString("base64")}`;

async function read(text: string, files: Record<string, string> = {}) {
  const { folder } = await makeFolder(onTestFinished);
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
  const path = join(folder, "webhooks.yaml");
  await writeFile(path, text);
  const reading = await readWebhooksFile(path);
  if (reading.ok) return { hooks: [...reading.webhooks.hooks.values()], faults: [] };
  return { hooks: [], faults: reading.faults.map((fault) => fault.replace(path, "f")) };
}

const entry = (keys: string) => `webhooks:\n  - { name: a, url: https://example.com/h, types: [decision], ${keys} }\n`;

test("a file names hooks, with their defaults", async () => {
  const { hooks } = await read(`
webhooks:
  - name: billing
    url: https://example.com/hooks?key=1
    secret: [${SECRET}, ${OTHER}]
    types: [turn.ended, lease.lapsed]
    agents: [dialog_agent]
    users: [ann]
    timeout: 2s
  - { name: house, url: "http://10.0.0.7:8123/api", secret: ${SECRET}, types: [decision], private_addresses: true }
`);
  expect(hooks).toEqual([
    {
      ...{ name: "billing", url: new URL("https://example.com/hooks?key=1") },
      keys: [Buffer.alloc(24, 1), Buffer.alloc(32, 2)],
      ...{ types: new Set(["turn.ended", "lease.lapsed"]), agents: new Set(["dialog_agent"]), users: new Set(["ann"]) },
      ...{ mayBePrivate: false, timeoutMs: 2_000 },
    },
    {
      ...{ name: "house", url: new URL("http://10.0.0.7:8123/api"), keys: [Buffer.alloc(24, 1)] },
      ...{ types: new Set(["decision"]), agents: undefined, users: undefined, mayBePrivate: true, timeoutMs: 15_000 },
    },
  ]);
  expect(await read("webhooks: []")).toEqual({ hooks: [], faults: [] });
});

test("secrets may be in a file beside it, one or two", async () => {
  const files = { one: `${SECRET}\n`, two: `${SECRET}\r\n${OTHER}`, none: "\n", bad: `${SECRET}\nhunter2\n` };
  const [one] = (await read(entry("secret_file: one"), files)).hooks;
  expect(one!.keys).toEqual([Buffer.alloc(24, 1)]);
  const [two] = (await read(entry("secret_file: two"), files)).hooks;
  expect(two!.keys).toEqual([Buffer.alloc(24, 1), Buffer.alloc(32, 2)]);
  for (const [file, fault] of [
    ["none", "must have one secret, or two on a line each"],
    ["bad", "has a line that is no secret"],
    ["missing", "there is no such file"],
  ]) {
    const { faults } = await read(entry(`secret_file: ${file}`), files);
    expect(faults).toEqual([expect.stringContaining(`f:2:76 webhooks[0].secret_file: ${fault}`)]);
    expect(faults.join()).not.toContain("hunter2");
  }
});

test("each fault has its line, its column and its remedy, and never a secret", async () => {
  const { faults } = await read(`
webhooks:
  - { name: A b, url: ftp://x, secret: hunter2hunter2, types: [turn.end] }
  - { name: b, url: "http://example.com", secret: ${SECRET}, types: [turn.ended], agent: [x] }
  - { name: b, url: "https://u:p@example.com", types: [session.moved], timeout: 2h }
`);
  expect(faults.join("\n")).not.toContain("hunter2");
  expect(faults).toEqual([
    expect.stringMatching(/^f:3:13 webhooks\[0\]\.name: must be 1 to 64 of a-z 0-9 _ -/),
    expect.stringMatching(/^f:3:40 webhooks\[0\]\.secret: /),
    "f:3:64 webhooks[0].types[0]: is not a known type; did you mean turn.ended?",
    expect.stringMatching(/^f:4:21 webhooks\[1\]\.url: must begin with https/),
    "f:4:112 webhooks[1].agent: is not a known key; did you mean agents?",
    expect.stringMatching(/^f:5:\d+ webhooks\[2\]\.types\[0\]: is not a known type; known: turn\.ended, /),
    expect.stringMatching(/^f:5:\d+ webhooks\[2\]\.timeout: must be at most 1m/),
  ]);
});

test("what only the whole entry shows is refused too", async () => {
  const faultOf = async (keys: string) => (await read(entry(keys))).faults.map((fault) => fault.replace(/^f:\S+ /, ""));
  expect(await faultOf("timeout: 1s")).toEqual(["webhooks[0].name: needs secret or secret_file, one of them"]);
  const url = (address: string) =>
    read(`webhooks: [{ name: a, url: "${address}", secret: ${SECRET}, types: [decision] }]`);
  for (const [address, fault] of [
    ["http://example.com", "must begin with https"],
    ["https://u:p@example.com", "must have no user name"],
    ["ftp://example.com", "must be an address with https"],
    ["example.com", "must be an address with https"],
  ] as const) {
    expect((await url(address)).faults, address).toEqual([expect.stringContaining(`webhooks[0].url: ${fault}`)]);
  }
  const twice = await read(`${entry(`secret: ${SECRET}`)}${entry(`secret: ${SECRET}`).replace("webhooks:\n", "")}`);
  expect(twice.faults).toEqual(["f:3:13 webhooks[1].name: is there twice"]);
  expect((await read("")).faults).toHaveLength(1);
  expect((await read("webhooks: [")).faults).toHaveLength(1);
});

test.each([
  ["without faults", "session.transition"],
  ["with faults", "session_transition"],
])("a large file is read as a small one is, while the event loop goes on: %s", async (_, type) => {
  const users = Array.from({ length: 900 }, (__, index) => `user-of-the-house-${index}`).join(", ");
  const small = `webhooks: [{ name: a, url: https://example.com/h, types: [${type}], secret: ${SECRET}, users: [u] }]`;
  const { folder } = await makeFolder(onTestFinished);
  const path = join(folder, "webhooks.yaml");
  await writeFile(path, small.replace("[u]", `[${users}]`));
  const lex = vi.spyOn(Lexer.prototype, "lex");
  const reading = await readWebhooksFile(path);
  expect(lex).not.toHaveBeenCalled();
  await writeFile(path, small);
  const expected = await readWebhooksFile(path);
  expect(lex).toHaveBeenCalledOnce();
  if (!expected.ok || !reading.ok) return expect(reading).toEqual(expected);
  const [hook] = expected.webhooks.hooks.values();
  const hooks = new Map([["a", { ...hook, users: new Set(users.split(", ")) }]]);
  expect(reading.webhooks).toEqual({ hooks, secretFiles: [] });
});
