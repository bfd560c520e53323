/**
 * A history of requests to a node whose catalogue has no key of *Heard together*, and all answers and events of the
 * node, byte by byte except for times and generated ids. It imports the package's entries only, so that it also runs in
 * a former release: `node test/support/nodes/wire-history.ts` prints that release's output.
 */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createApp, readSettings } from "../../../src/index.ts";

const AGENTS = [
  { name: "music", label: "Music", priority: 20 },
  { name: "weather", label: "Weather", priority: 30, after_turn: "yield" },
  { name: "chat", label: "Chat", priority: 10 },
  { name: "news", label: "News", priority: 10, when_blocked: "queue" },
  { name: "navigation", label: "Navigation", priority: 80, interruptible: false, preemption_threshold: 95 },
  { name: "phone", label: "Phone", priority: 90, interruptible: false },
].map((agent) => ({ ...agent, adapter: { kind: "scripted", replies: [{ say: ["Hello ", "there."], delay: "0ms" }] } }));
const CATALOG = {
  agents: AGENTS,
  default_agent: "chat",
  priority_rules: [{ name: "emergency", when: "emergency", agents: ["phone"], adjust: 5 }],
};
const FLOOR = "/floor/u%3Aann";

type Asked = readonly [method: string, path: string, body?: object];

const create = (id: string, fields: object = {}): Asked => [
  "POST",
  "/session/create",
  { id, agentId: id, userId: "ann", title: id, activate: true, ...fields },
];
const on = (id: string, verb: string): Asked => ["POST", `/session/${id}/${verb}`];
const send = (message: object): Asked => ["POST", "/message", message];

/** A step that ends in `complete` is over when that event arrives. */
const STEPS: readonly (Asked | { asks: Asked; completes: string })[] = [
  ["GET", "/agents"],
  create("music"),
  { asks: send({ type: "chat", sessionId: "music", id: "m1", content: "play" }), completes: "music" },
  create("chat"),
  create("phone"),
  on("music", "resume"),
  create("news"),
  ["POST", `${FLOOR}/what-if`, { agentId: "navigation" }],
  ["POST", `${FLOOR}/what-if`, { agentId: "music" }],
  ["GET", FLOOR],
  on("phone", "archive"),
  create("weather"),
  { asks: send({ type: "chat", sessionId: "weather", id: "w1", content: "tell" }), completes: "weather" },
  on("weather", "resume"),
  send({ type: "switch_agent", sessionId: "weather", agentId: "navigation" }),
  send({ type: "switch_agent", sessionId: "weather", agentId: "nobody" }),
  create("phone2", { agentId: "phone" }),
  ["PUT", `${FLOOR}/flags`, { emergency: true }],
  create("phone3", { agentId: "phone" }),
  ["PUT", `${FLOOR}/flags`, {}],
  on("phone3", "pause"),
  on("music", "pause"),
  on("music", "activate"),
  on("music", "abort"),
  on("weather", "archive"),
  send({ type: "heartbeat", sessionId: "music" }),
  send({ type: "heartbeat", sessionId: "nobody" }),
  send({ type: "ping" }),
  on("nobody", "activate"),
  ["PATCH", "/session/music", { title: "Jazz" }],
  ["GET", "/session/music"],
  ["GET", "/session/music/messages"],
  ["GET", FLOOR],
  ["GET", "/session/list?userId=ann&includeArchived=true"],
  ["POST", `${FLOOR}/stop`],
  ["POST", `${FLOOR}/stop-all`],
  on("weather", "stop"),
  ["DELETE", "/session/chat"],
  ["GET", "/session/list?userId=ann&includeArchived=true"],
];
const SESSIONS = ["music", "phone", "phone3", "news", "weather"];

/** Parts that differ between runs: times, the store's name, generated ids. Equal ids get equal names. */
function masked(text: string, epoch: string): string {
  const ids = new Map<string, string>();
  const idFor = (id: string) => {
    if (!ids.has(id)) ids.set(id, `ID-${ids.size + 1}`);
    return ids.get(id)!;
  };
  return (
    text
      .replaceAll(epoch, "EPOCH")
      // The session that a position belongs to.
      .replace(/\bEPOCH\.(\d+)\.[a-z0-9]+/g, "EPOCH.$1")
      .replace(/"timestamp":"[^"]*"/g, '"timestamp":"TIME"')
      .replace(/\b1[6-9]\d{11}\b/g, '"TIME"')
      .replace(/"([A-Za-z0-9_-]{22}(?:-\d+-\d+)?)"/g, (_, id) => `"${idFor(id)}"`)
  );
}

/** All output of the node during the history: each answer, then each log as a reader receives it. */
export async function playWire(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "interlock-wire-"));
  const config = join(folder, "agents.yaml");
  await writeFile(config, JSON.stringify(CATALOG));
  const flags = ["--port", "0", "--store", "sqlite::memory:", "--drain", "0ms", "--log-level", "silent"];
  const reading = readSettings({ INTERLOCK_CONFIG: config }, flags);
  if (!reading.ok) throw new Error(JSON.stringify(reading.faults));
  const app = createApp({ settings: reading.settings, env: {} });
  const { url } = await app.start();
  try {
    const lines: string[] = [];
    for (const step of STEPS) {
      const [asked, completes] = "asks" in step ? [step.asks, step.completes] : [step, undefined];
      lines.push(await ask(url, asked));
      if (completes !== undefined)
        await read(`${url}/session/${completes}/events`, (text) => /"type":"complete"/.test(text));
    }
    const floor = await readPosition(url, FLOOR);
    lines.push(`stream of the floor\n${await readTo(`${url}${FLOOR}/events`, floor)}`);
    for (const id of SESSIONS) {
      const position = await readPosition(url, `/session/${id}`);
      lines.push(`stream of ${id}\n${await readTo(`${url}/session/${id}/events`, position)}`);
    }
    return masked(lines.join("\n\n"), floor.split(".")[0]!);
  } finally {
    await app.stop();
    await rm(folder, { recursive: true });
  }
}

async function ask(url: string, [method, path, body]: Asked): Promise<string> {
  const response = await fetch(`${url}${path}`, {
    method,
    ...(method !== "GET" && { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body ?? {}) }),
  });
  return `${method} ${path} ${body === undefined ? "" : JSON.stringify(body)}\n${response.status} ${await response.text()}`;
}

async function readPosition(url: string, path: string): Promise<string> {
  return ((await (await fetch(`${url}${path}`)).json()) as { position: string }).position;
}

/** The frames of events up to a position. */
async function readTo(url: string, position: string): Promise<string> {
  const text = await read(url, (lines) => lines.includes(`id: ${position}\n`) && lines.endsWith("\n\n"));
  const frames = text
    .split("\n\n")
    .map((frame) => frame.replace(/^retry: .*\n/, ""))
    .filter((frame) => frame.startsWith("id: "));
  return frames.slice(0, frames.findIndex((frame) => frame.startsWith(`id: ${position}\n`)) + 1).join("\n\n");
}

async function read(url: string, isEnough: (text: string) => boolean): Promise<string> {
  const stopping = new AbortController();
  const { body } = await fetch(url, { signal: stopping.signal });
  let text = "";
  for await (const piece of body!.pipeThrough(new TextDecoderStream())) {
    text += piece;
    if (isEnough(text)) break;
  }
  stopping.abort();
  return text;
}

if (import.meta.main) process.stdout.write(`${await playWire()}\n`);
