import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { readWebhooksFile, WEBHOOK_KEYS, type Webhook } from "../../src/config/webhooks-file.ts";
import type { FloorId } from "../../src/protocol/ids.ts";
import { NOTICE_TYPES, type NoticeType } from "../../src/protocol/notice.ts";
import { noticesOf } from "../../src/webhooks/notices.ts";
import { Sender } from "../../src/webhooks/sender.ts";
import { signedHeaders } from "../../src/webhooks/signature.ts";
import { RealClock } from "../support/catalogs/watched-file.ts";
import { testWith } from "../support/programs/suites.ts";
import { freePort } from "../support/servers/free-port.ts";
import { SECRET } from "../support/servers/hook-receiver.ts";
import { makeSession, NOON } from "../support/stores/floor-writer.ts";
import { makeFolder } from "../support/stores/sqlite-place.ts";
import { codeOf, readPage, root, tablesOf } from "./page.ts";

const page = readPage("docs/operate/webhooks.md");
const blockOf = (info: string) => page.blocks.find((block) => block.info === info)!.text;
const KEY = Buffer.from(SECRET.slice("whsec_".length), "base64");
const BODY = JSON.stringify({ type: "test", data: { webhook: "é" } });

test("docs/operate/webhooks.md shows a file that is valid, and has every key and every type", async () => {
  const { folder: path } = await makeFolder(onTestFinished);
  await writeFile(join(path, "secrets"), SECRET);
  const text = blockOf("yaml webhooks").replace("/run/secrets/billing ", "secrets ");
  await writeFile(join(path, "webhooks.yaml"), text);
  const reading = await readWebhooksFile(join(path, "webhooks.yaml"));
  expect(reading).toMatchObject({ ok: true });
  const [keys] = tablesOf(page, "key", "default", "meaning");
  expect(keys!.map(([key]) => codeOf(key!)[0])).toEqual(WEBHOOK_KEYS);
  const [types] = tablesOf(page, "type", "when");
  expect(types!.map(([type]) => codeOf(type!)[0])).toEqual([...Object.keys(NOTICE_TYPES), "test"]);
});

test("the body on docs/operate/webhooks.md has the keys that are sent", () => {
  const hook = { name: "h", types: new Set(Object.keys(NOTICE_TYPES) as NoticeType[]) } as unknown as Webhook;
  const session = makeSession("song");
  const json = JSON.stringify({ sessionId: "song", runId: "r", usage: {}, tokenCount: 5 });
  const entries = [{ floorSeq: 41, sessionId: session.id, seq: 12, type: "complete", at: NOON, json } as const];
  const events = { floorId: "u:ann" as FloorId, entries, sessionOf: () => session, deleted: new Set<never>() };
  const [notice] = noticesOf(new Map([["h", hook]]), events, { time: 1, newId: () => "1" })!;
  const shapeOf = (value: unknown): unknown =>
    typeof value === "object" && value !== null
      ? Object.fromEntries(Object.entries(value).map(([key, each]) => [key, shapeOf(each)]))
      : typeof value;
  expect(shapeOf(JSON.parse(blockOf("json webhook")))).toEqual(shapeOf(JSON.parse(notice!.payload)));
});

/** A receiver of the page in a process, and what it printed. */
async function receiver(program: string, args: readonly string[]) {
  const port = await freePort();
  const env = { ...process.env, PORT: String(port), WEBHOOK_SECRET: SECRET };
  const child = spawn(program, args, { cwd: root, env, stdio: ["ignore", "pipe", "ignore"] });
  const ended = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  let printed = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (printed += text));
  const send = (id: string, key = KEY) => {
    const plain = { name: "h", url: new URL(`http://127.0.0.1:${port}`), keys: [key], types: new Set<NoticeType>() };
    const hook = { ...plain, agents: undefined, users: undefined, mayBePrivate: true, timeoutMs: 20_000 };
    const sender = new Sender(hook, { clock: new RealClock(), wallNow: () => Date.now() });
    onTestFinished(() => sender.close());
    return sender.send({ id, payload: BODY }, new AbortController().signal);
  };
  // It listens a moment after its start.
  await expect.poll(async () => (await send("msg_0")).isAccepted, { timeout: 20_000 }).toBe(true);
  // Its answer may come before what it prints.
  await expect.poll(() => printed).toContain("\n");
  return { send, printed: () => printed };
}

/** The receiver accepts what is genuine, prints a repeat once, and refuses what another secret signed. */
async function expectVerifies({ send, printed }: Awaited<ReturnType<typeof receiver>>): Promise<void> {
  const before = printed().split("\n").length;
  for (let n = 0; n < 2; n++) expect(await send("msg_1")).toMatchObject({ isAccepted: true });
  expect(await send("msg_2", Buffer.alloc(32, 1))).toMatchObject({ isAccepted: false, status: 401 });
  expect(await send("msg_3")).toMatchObject({ isAccepted: true });
  await expect.poll(() => printed().split("\n").length - before).toBe(2);
}

test("the receiver in JavaScript on docs/operate/webhooks.md verifies, and drops repeats", async () => {
  await expectVerifies(await receiver(process.execPath, ["--input-type=module", "-e", blockOf("js receiver")]));
});

testWith(["python"], "the receiver in Python on docs/operate/webhooks.md verifies, and drops repeats", async () => {
  await expectVerifies(await receiver("python3", ["-c", blockOf("python receiver")]));
});

testWith(["openssl"], "the receiver in shell on docs/operate/webhooks.md verifies", async () => {
  const body = join((await makeFolder(onTestFinished)).folder, "body");
  await writeFile(body, BODY);
  const verify = async (key: Buffer) => {
    const headers = signedHeaders({ id: "msg_1", payload: BODY }, [Buffer.alloc(24, 2), key], Date.now());
    const env = {
      ...{ PATH: process.env["PATH"], WEBHOOK_SECRET: SECRET, BODY: body, ID: headers["webhook-id"] },
      ...{ TIMESTAMP: headers["webhook-timestamp"], SIGNATURES: headers["webhook-signature"] },
    };
    return await promisify(execFile)("bash", ["-c", blockOf("sh receiver")], { env }).then(
      ({ stdout }) => stdout,
      (error: { stdout: string }) => error.stdout,
    );
  };
  expect(await verify(KEY)).toBe("genuine\n");
  expect(await verify(Buffer.alloc(32, 1))).toBe("forged\n");
});
