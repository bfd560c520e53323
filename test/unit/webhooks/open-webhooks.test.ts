import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { loadWebhooks, OpenWebhooks } from "../../../src/webhooks/open-webhooks.ts";
import { RealClock, ReceivedLog } from "../../support/catalogs/watched-file.ts";
import { SECRET } from "../../support/servers/hook-receiver.ts";

const OTHER = `whsec_${Buffer.alloc(24, 9).toString("base64")}`;
const REPLACED = "the webhooks were replaced";

async function stage() {
  const folder = await mkdtemp(join(tmpdir(), "interlock-webhooks-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, "webhooks.yaml");
  const write = async (name: string, text: string) => {
    await writeFile(join(folder, `${name}.new`), text);
    await rename(join(folder, `${name}.new`), join(folder, name));
  };
  const hooks = (...entries: string[]) =>
    write(
      "webhooks.yaml",
      `webhooks: [${entries.map((keys) => `{ url: https://example.com, types: [decision], ${keys} }`).join()}]`,
    );
  await write("secret", `${SECRET}\n`);
  await hooks("name: a, secret_file: secret, agents: [music_agnt]");
  const log = new ReceivedLog();
  const clock = new RealClock();
  const webhooks = new OpenWebhooks({
    ...{ path, initial: await loadWebhooks(path), clock, wallNow: () => Date.now(), newId: () => "id" },
    knownAgents: () => ["music_agent", "phone_agent"],
    log: { debug: () => {}, info: log.info, warn: log.warn, error: log.error },
  });
  onTestFinished(() => webhooks.close());
  const keys = () =>
    webhooks
      .current()
      .get("a")!
      .keys.map((key) => `whsec_${key.toString("base64")}`);
  return { write, hooks, log, webhooks, keys };
}

test("an agent that the catalogue lacks is named when the file is read, with the name that was meant", async () => {
  const { log } = await stage();
  expect(await log.next()).toMatchObject({
    level: "warn",
    facts: { webhook: "a", agent: "music_agnt" },
    text: "a webhook names an agent that is not in the catalogue; did you mean music_agent?",
  });
});

test("a changed secret applies without a change of the file, and the former one is replaced", async () => {
  const { write, log, keys } = await stage();
  await write("secret", `${OTHER}\n${SECRET}\n`);
  expect((await log.until(REPLACED)).facts).toMatchObject({ webhooks: ["a"] });
  expect(keys()).toEqual([OTHER, SECRET]);
  await write("secret", OTHER);
  await log.until(REPLACED);
  expect(keys()).toEqual([OTHER]);
});

test("a faulty file changes nothing and is logged without secrets, and the next valid one applies", async () => {
  const { write, hooks, log, webhooks, keys } = await stage();
  await write("webhooks.yaml", "webhooks: [{ name: b, secret: hunter2hunter2 }]");
  const { level, facts } = await log.until("the webhooks have faults; the previous ones stay in use");
  expect(level).toBe("error");
  expect(JSON.stringify(facts)).toContain("webhooks[0].url: is missing");
  expect(JSON.stringify(facts)).not.toContain("hunter2");
  expect(keys()).toEqual([SECRET]);
  await hooks("name: a, secret_file: secret", `name: b, secret: ${OTHER}`);
  await log.until(REPLACED);
  expect([...webhooks.current().keys()]).toEqual(["a", "b"]);
});
