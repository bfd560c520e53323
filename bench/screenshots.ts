import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { type Client, createClient } from "../src/client/client.ts";
import { readSettings } from "../src/config/settings.ts";
import { createApp } from "../src/node/app.ts";

/**
 * Takes screenshots of the page on a real node with the shipped catalogue: `npm run screenshots` those of the two
 * README.md, `npm run screenshots -- --all` every view in each size, theme and language, into `--to`.
 */
const ROOT = fileURLToPath(new URL("..", import.meta.url));
const FLOOR = "u:driver";
const ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"];
const SIZES = {
  head: { width: 1280, height: 720 },
  phone: { width: 390, height: 844 },
  wide: { width: 1920, height: 1080 },
};

const { values } = parseArgs({
  options: {
    all: { type: "boolean", default: false },
    only: { type: "string" },
    to: { type: "string", default: join(ROOT, "docs/images") },
    chromium: { type: "string", default: process.env["TEST_CHROMIUM"] ?? "/usr/bin/chromium" },
  },
});

interface Shot {
  name: string;
  /** The part of the address after `#/`. */
  path: string;
  look: BrowserContextOptions;
  before?: (page: Page) => Promise<void>;
}

const folder = await mkdtemp(join(tmpdir(), "interlock-screenshots-"));
const reading = readSettings({ PORT: "0", INTERLOCK_STORE: `sqlite:${join(folder, "log.db")}`, LOG_LEVEL: "silent" });
if (!reading.ok) throw new Error(`the settings are faulty: ${JSON.stringify(reading.faults)}`);
const quiet = { debug() {}, info() {}, warn() {}, error: console.error };
const app = createApp({ settings: reading.settings, env: {}, log: quiet });
const { url } = await app.start();
const client = createClient({ baseUrl: url });
const browser = await chromium.launch({ executablePath: values.chromium, args: ARGUMENTS });
try {
  const sessions = await play(client);
  await mkdir(values.to, { recursive: true });
  for (const shot of shots(sessions)) {
    if (values.only !== undefined && !new RegExp(values.only).test(shot.name)) continue;
    await take(shot);
  }
} finally {
  await browser.close();
  await app.stop();
  await rm(folder, { recursive: true });
}

/** Play what the screenshots show: music, a finished plan, a trunk that waits for a confirmation, and a phone call. */
async function play(client: Client): Promise<Record<"music" | "plan" | "car" | "phone", string>> {
  const start = async (agentId: string, content: string) => {
    const { session } = await client.createSession({ agentId, userId: "driver", activate: true });
    await client.send({ type: "chat", sessionId: session.id, content });
    return session.id;
  };
  const until = async (id: string, is: (activity: string) => boolean) => {
    for (;;) {
      const { session } = await client.getSession(id);
      if (is(session.activity)) return;
    }
  };
  const music = await start("music_agent", "放一首歌");
  const car = await start("vehicle_control_agent", "open the trunk");
  await until(car, (activity) => activity === "waiting");
  const plan = await start("planner_agent", "Plan my day");
  await until(plan, (activity) => activity === "idle");
  await client.createSession({ agentId: "chat_agent", userId: "driver", activate: true }).catch(() => undefined);
  const phone = await start("phone_agent", "answer the incoming call");
  await until(phone, (activity) => activity === "idle");
  await client.createSession({ agentId: "navigation_agent", userId: "driver", activate: true }).catch(() => undefined);
  return { music, plan, car, phone };
}

function shots({ car, plan }: Awaited<ReturnType<typeof play>>): Shot[] {
  const floor = encodeURIComponent(FLOOR);
  const readme = (name: string, locale: string): Shot => ({
    name,
    path: `floor/${floor}`,
    look: { viewport: { width: 1280, height: 720 }, locale, colorScheme: "light" },
  });
  if (!values.all) return [readme("floor", "en-US"), readme("floor.zh", "zh-CN")];
  const views = {
    start: "",
    floor: `floor/${floor}`,
    session: `session/${floor}/${plan}`,
    question: `session/${floor}/${car}`,
    timeline: `timeline/${floor}`,
    machine: `machine/${floor}/${car}`,
    sequence: `sequence/${floor}`,
    node: `node/${floor}`,
  };
  return Object.entries(views).flatMap(([view, path]) =>
    Object.entries(SIZES).flatMap(([size, viewport]) =>
      ["en-US", "zh-CN"].flatMap((locale) =>
        (["light", "dark"] as const).map((colorScheme) => {
          const name = `${view}-${size}-${locale.slice(0, 2)}-${colorScheme}`;
          return { name, path, look: { viewport, locale, colorScheme } };
        }),
      ),
    ),
  );
}

async function take({ name, path, look, before }: Shot): Promise<void> {
  const context = await browser.newContext({ reducedMotion: "reduce", ...look });
  const page = await context.newPage();
  page.on("console", (message) => {
    if (message.type() === "error") console.error(`${name}: ${message.text()}`);
  });
  await page.goto(`${url}/#/${path}`);
  await page
    .getByRole("status")
    .getByText(/Connected|已连接/)
    .waitFor();
  await before?.(page);
  await page.evaluate("new Promise((done) => setTimeout(done, 900))");
  const file = join(values.to, `${name}.png`);
  await page.screenshot({ path: file });
  console.log(file);
  await context.close();
}
