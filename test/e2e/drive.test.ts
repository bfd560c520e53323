import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { type DriveOptions, drive } from "../../src/cli/drive.ts";
import { Stage } from "../../src/cli/drive-stage.ts";
import type { Output } from "../../src/cli/printed-lines.ts";
import { widthOf } from "../../src/cli/text-width.ts";
import { type Client, createClient } from "../../src/client/client.ts";
import { loadCatalog } from "../../src/config/catalog/catalog-file.ts";
import { readScript } from "../../src/policy/script.ts";
import { play } from "../../src/policy/simulation.ts";
import type { Decision } from "../../src/protocol/decision.ts";
import { readPage } from "../docs/page.ts";
import { keysFile, writeTemporary } from "../support/clients/callers.ts";
import { NodeUnderTest } from "../support/nodes/node-under-test.ts";
import { atEndOfSuite } from "../support/runner/at-end-of-suite.ts";

const atEnd = atEndOfSuite();

/** A node in this process with the shipped catalogue. */
async function serve(settings: Record<string, string> = {}) {
  const node = await NodeUnderTest.start({ settings: { INTERLOCK_CONFIG: "config/agents_config.yaml", ...settings } });
  return { url: node.url, [Symbol.asyncDispose]: () => node.stop() };
}

/** The path of the shipped catalogue with a change. */
const editShipped = async (edit: (text: string) => string) =>
  writeTemporary("agents.yaml", edit(await readFile("config/agents_config.yaml", "utf8")), atEnd);

/** Drive, and collect the output. */
async function printed(url: string, options: DriveOptions = {}, screen: Partial<Output> = {}) {
  let text = "";
  const code = await drive(url, { write: (piece) => (text += piece), ...screen }, { env: {}, ...options });
  return { code, text, lines: text.split("\n") };
}

/** The output of one scene of a drive. */
const sceneOf = (text: string, number: number) => text.split(/^(?=\d {2})/m)[number]!;

/** The events of a scene, without times, padding and line breaks. */
function toldIn(scene: string): string[] {
  const unbroken = scene.replace(/\n {12,}(?=\S)/g, " ");
  const told = [...unbroken.matchAll(/^ *\d+\.\d s {2}(.*)$/gm)].map(([, line]) => line!.replace(/ {2,}/g, " "));
  expect(told.length).toBeGreaterThan(4);
  return told;
}

/** The addresses of the scenes' floors on the page. */
const pagesIn = (text: string) => [...text.matchAll(/^ {3}(http\S+)$/gm)].map(([, address]) => new URL(address!));
const floorOn = ({ hash }: URL) => decodeURIComponent(hash.replace("#/floor/", ""));

/** The decisions of a log, with agents alone in place of sessions. */
const decisionsOf = (events: readonly { type: string; data: unknown }[]): Decision[] =>
  events.flatMap(({ type, data }) =>
    type === "arbitration"
      ? [JSON.parse(JSON.stringify(data, (key, value) => (key === "sessionId" ? undefined : value))) as Decision]
      : [],
  );

/** The decisions of a script that `interlock simulate` plays in a language. All its expectations hold. */
async function simulated(name: string, locale = "en"): Promise<Decision[]> {
  const read = readScript(await readFile(`config/scripts/${name}`, "utf8"));
  if (!read.ok) throw new Error(JSON.stringify(read.faults));
  const reading = await loadCatalog(`config/scripts/${read.script.catalogue}`);
  if (!reading.ok) throw new Error(read.script.catalogue);
  const script = { ...read.script, steps: read.script.steps.map((step) => ({ ...step, locale })) };
  const { events, checks } = play({ ...read, script }, { catalog: reading.catalog });
  expect(checks.filter(({ fault }) => fault !== undefined)).toEqual([]);
  return decisionsOf(events);
}

/** The decisions that a node has logged of each scene. */
async function loggedOn(client: Client, text: string): Promise<Decision[][]> {
  const logs = await Promise.all(pagesIn(text).map((page) => client.readFloorLog(floorOn(page), { limit: 1_000 })));
  return logs.map(({ events }) => decisionsOf(events.toReversed()));
}

/** What is said in each language, by the environment or the option. */
const SPOKEN = [
  {
    options: { env: { LANG: "de_DE.UTF-8" } },
    locale: "en",
    names: {
      music: "Music",
      phone: "Phone",
      chat: "Chat",
      navigation: "Navigation",
      planner: "Planner",
      windows: "Vehicle Control",
      weather: "Weather",
    },
    scenes: ["A call interrupts the music", "Music plays. A call comes in, is answered and ends"],
    paused: "The music is paused.",
    resumed: "The music goes on.",
    answered: "You are through, go ahead.",
    hungUp: "The call is over.",
    song: /♪ Scarborough Fair/,
    smallTalk: "Navigation is under way; Chat has to wait.",
    windows: "The plan is being made; Vehicle Control has to wait a moment.",
    plan: /drive back at three\.$/,
    closed: "The windows are closed.",
    weather: "Sunny, 22 degrees, a light breeze: no umbrella needed.",
    isForeign: /[\u4e00-\u9fff]/,
    told: {
      paused: "is paused for Phone",
      granted: (numbers: string) => `has the floor: ${numbers}, and Music may be interrupted`,
      goesOn: "goes on",
      refused: "is refused: ",
      needs: "would need priority > 60",
      last: /^All 4 scenes followed the rules, in \d+\.\d s\.$/,
    },
  },
  {
    options: { env: { LANG: "zh_CN.UTF-8" } },
    locale: "zh",
    names: {
      music: "音乐",
      phone: "电话",
      chat: "闲聊",
      navigation: "导航",
      planner: "行程",
      windows: "车辆控制",
      weather: "天气",
    },
    scenes: ["电话打断音乐", "电话打进来"],
    paused: "音乐已暂停",
    resumed: "继续播放音乐",
    answered: "已接听，请讲。",
    hungUp: "好的，通话已结束。",
    song: /♪ 《茉莉花》/,
    smallTalk: "导航中，暂时无法闲聊",
    windows: "正在规划，请稍等再车辆控制",
    plan: /下午三点返程。$/,
    closed: "车窗已关闭。",
    weather: "今天晴，22 度，东南风二级，不用带伞。",
    isForeign: /Scarborough|has to wait|go ahead|floor\b(?!\/)|paused\b|followed|the /,
    told: {
      paused: "被暂停，让位给电话",
      granted: (numbers: string) => `拥有发言权：${numbers}，音乐可以被打断`,
      goesOn: "继续",
      refused: "被拒绝：",
      needs: "需要 priority > 60",
      last: /^4 个场景都符合规则，用时 \d+\.\d 秒。$/,
    },
  },
];

it.concurrent.each(SPOKEN)(
  "the drive's four scenes go as the rules say, and the timeline explains them ($scenes.0)",
  async (spoken) => {
    await using server = await serve();
    const { code, text, lines } = await printed(server.url, spoken.options);

    const { told, names } = spoken;
    expect(text).not.toMatch(/not so|并非如此/);
    expect(code).toBe(0);
    expect(lines.at(-2)).toMatch(told.last);
    for (const line of lines) expect(widthOf(line), line).toBeLessThanOrEqual(100);
    for (const part of spoken.scenes) expect(sceneOf(text, 1)).toContain(part);
    expect(text).not.toMatch(spoken.isForeign);

    const call = toldIn(sceneOf(text, 1));
    // Between them it is told why the phone hears the sentence.
    const pausedAt = call.indexOf(`${names.music} ‖ ${told.paused}`);
    expect([call[pausedAt], call[pausedAt + 2]]).toEqual([
      `${names.music} ‖ ${told.paused}`,
      `${names.phone} ▶ ${told.granted("90 > 20")} (preempted) “${spoken.paused}”`,
    ]);
    expect(call).toContain(`${names.phone} › ${spoken.answered}`);
    expect(call).toContain(`${names.phone} › ${spoken.hungUp}`);
    expect(call).toContain(`${names.music} ▶ ${told.goesOn} (resumed) “${spoken.resumed}”`);
    expect(call.findLast((line) => line.startsWith(`${names.music} ›`))).toMatch(spoken.song);
    expect(sceneOf(text, 1)).toMatch(
      new RegExp(`^ {3}${names.music} 20 {2}█+░+█+$\n^ {3}${names.phone} 90 {3,}█+$`, "m"),
    );

    const [title] = text.match(/^1 {2}.*$/m)!;
    const shown = readPage("README.md").blocks.find(({ text }) => text.startsWith(`${title}\n`));
    expect(shown !== undefined).toBe(spoken.scenes[0] === "A call interrupts the music");
    // In the order of the page, which leaves some out.
    if (shown) expect(call.filter((line) => toldIn(shown.text).includes(line))).toEqual(toldIn(shown.text));

    const smallTalk = toldIn(sceneOf(text, 2));
    expect(smallTalk).toContain(`${names.chat} ✗ ${told.refused}10 < 80 (lower_priority) “${spoken.smallTalk}”`);
    expect(smallTalk.filter((line) => line.trimStart().startsWith("✗"))).toEqual([]);
    // It goes on after the refusal; on a slow machine with a later sentence than its second.
    expect(smallTalk.findLast((line) => line.startsWith(`${names.navigation} ›`))).toMatch(/^\S+ › … .+[。.,;:；，]/);
    expect(sceneOf(text, 2)).toMatch(new RegExp(`^ {3}${names.navigation} 80 {2}█+$\n^ {3}${names.chat} 10 +✗$`, "m"));

    const windows = toldIn(sceneOf(text, 3));
    expect(windows).toContain(`${names.windows} ✗ ${told.refused}50 < 60 (lower_priority) “${spoken.windows}”`);
    expect(windows).toContain(`${names.windows} ${told.needs}`);
    expect(windows.findLast((line) => line.startsWith(`${names.planner} ›`))).toMatch(spoken.plan);
    expect(windows).toContain(`${names.windows} › ${spoken.closed}`);
    // Closing takes less than a column, which then shows how it ended.
    expect(sceneOf(text, 3)).toMatch(
      new RegExp(`^ {3}${names.planner} 60 +█+$\n^ {3}${names.windows} 50 +✗ +[█░]+$`, "m"),
    );

    const weather = toldIn(sceneOf(text, 4));
    expect(weather).toContain(`${names.weather} ▶ ${told.granted("30 > 20")} (preempted) “${spoken.paused}”`);
    expect(weather).toContain(`${names.weather} › ${spoken.weather}`);
    expect(weather).toContain(`${names.music} ▶ ${told.goesOn} (resumed) “${spoken.resumed}”`);

    // Each scene names its floor on the page, and leaves no session behind that waits.
    const pages = pagesIn(text);
    expect(pages.map(({ origin }) => origin)).toEqual(Array(4).fill(server.url));
    const client = createClient({ baseUrl: server.url });
    for (const page of pages) {
      const floor = await client.getFloor(floorOn(page));
      expect([floor.holder, floor.paused, floor.queued]).toEqual([null, [], []]);
      expect(floor.decisions.length).toBeGreaterThan(0);
    }
    const { sessions } = await client.listSessions({ pageSize: 200 });
    expect(sessions).toEqual([]);

    const scripts = ["drive-1-call.yaml", "drive-2-small-talk.yaml", "drive-3-windows.yaml", "drive-4-weather.yaml"];
    expect(await loggedOn(client, text)).toEqual(
      await Promise.all(scripts.map((name) => simulated(name, spoken.locale))),
    );
  },
);

it.concurrent("the drive against a car with authentication needs an operator's token; it has a prompt over the music and in a call, and the timeline explains it", async () => {
  const [user, operator] = ["user-key-0123456789abcdef0123456789", "ops-key-0123456789abcdef01234567890"];
  const keys = keysFile([
    { owner: "ann", key: user },
    { owner: "ops", key: operator, operator: true },
  ]);
  const path = await writeTemporary("keys.yaml", keys, atEnd);
  await using server = await serve({ INTERLOCK_CONFIG: "config/car.yaml", INTERLOCK_AUTH: `keys:${path}` });
  for (const [env, sentence] of [
    [{}, `The node at ${server.url} requires authentication: set INTERLOCK_TOKEN`],
    [{ INTERLOCK_TOKEN: "wrong" }, `The node at ${server.url} does not know the token or key in INTERLOCK_TOKEN`],
    [{ INTERLOCK_TOKEN: user }, "The token or key in INTERLOCK_TOKEN is another user's"],
  ] as const) {
    const { code, text } = await printed(server.url, { env });
    expect([code, text]).toEqual([1, expect.stringContaining(sentence)]);
  }
  const { code, text, lines } = await printed(server.url, { env: { INTERLOCK_TOKEN: operator } });
  expect(text).not.toContain("not so");
  expect(code).toBe(0);
  expect(lines.at(-2)).toMatch(/^The scene followed the rules, in \d+\.\d s\.$/);
  for (const line of lines) expect(widthOf(line), line).toBeLessThanOrEqual(100);
  const told = toldIn(sceneOf(text, 1));
  expect(told).toContain("Music ▽ goes on beneath Navigation prompt, 14 dB quieter");
  expect(told).toContain("Music ▶ is in front, at its own volume");
  expect(told).toContain("Music ‖ is paused for Phone");
  expect(told).toContain("Navigation prompt ▽ starts, at its own volume");
  const headers = { Authorization: `Bearer ${operator}` };
  const client = createClient({ baseUrl: server.url, headers });
  expect(await loggedOn(client, text)).toEqual([await simulated("drive-prompt.yaml")]);
});

it.concurrent("the drive reports an invalid address", async () => {
  const { code, text } = await printed("nowhere");
  expect(code).toBe(1);
  expect(text).toBe("baseUrl must be an address with http or https, without query: nowhere\n");
});

it.concurrent("the drive names the priorities that its scenes need if the server has others", async () => {
  const edit = (text: string) =>
    text.replace("priority: 20\n", "priority: 95\n").replaceAll("chat_agent", "talk_agent");
  await using server = await serve({ INTERLOCK_CONFIG: await editShipped(edit) });
  const { code, lines } = await printed(server.url);
  expect(code).toBe(1);
  expect(lines).toEqual([
    "The scenes are written for the shipped catalogue, and this node has another:",
    "  music_agent has priority 95, not 20",
    "  there is no chat_agent",
    "",
  ]);
});

it.concurrent("the drive fails when a scene does not go as the rules say, and plays the other scenes", async () => {
  // The shipped numbers, and another sentence of the navigation.
  const edit = (text: string) => text.replace("en: Navigation is under way; ", "en: We are on our way; ");
  await using server = await serve({ INTERLOCK_CONFIG: await editShipped(edit) });
  const { code, text, lines } = await printed(server.url);
  expect(code).toBe(1);
  expect(lines.at(-2)).toBe("3 of 4 scenes followed the rules; these did not: scene 2.");
  const told = sceneOf(text, 2).replace(/\n {7}/g, " ");
  expect(told).toContain("✗ not so: the joke is refused, 10 < 80, with a spoken reason");
  expect(told).toContain(
    "said: Navigation is under way; Chat has to wait., but rejected, lower_priority: “We are on our way; Chat",
  );
  for (const number of [1, 3, 4]) expect(sceneOf(text, number)).not.toContain("not so");
});

it.concurrent("the drive says what it has waited for when its patience is over", async () => {
  await using server = await serve();
  const { code, text } = await printed(server.url, { patienceMs: 1 });
  expect([code, text]).toEqual([1, expect.stringMatching(/\nwaited 0\.001 s for the connection to be made\n$/)]);
});

it.concurrent("the drive leaves nothing running when it is stopped", async () => {
  await using server = await serve();
  const stopping = new AbortController();
  const client = createClient({ baseUrl: server.url });
  const driving = printed(server.url, { signal: stopping.signal }, { isTTY: true });
  const isActive = async () => (await client.listSessions({ state: "active" })).total > 0;
  while (!(await isActive())) await client.getHealth();
  stopping.abort();
  const { code, text } = await driving;
  expect(code).toBe(1);
  expect(text).toContain("\u001b[1mFour scenes of a drive\u001b[22m");
  expect(text.endsWith("The drive was stopped.\n")).toBe(true);
  expect(await isActive()).toBe(false);
});

it.concurrent.each([
  [
    "the floor does not become as expected",
    "{ asks: music_agent, expect: { heard: [phone_agent] } }",
    /^waited 10 s for /,
  ],
  [
    "it has an action that only a simulation plays",
    "{ set: QUIET }",
    /^a drive does not play "set", which interlock sim/,
  ],
])("a scene fails because %s", async (_, step, fault) => {
  await using node = await serve();
  const client = createClient({ baseUrl: node.url });
  const stage = await Stage.open({ client, userId: "ann", language: "en", patienceMs: 10_000 });
  const read = readScript(`steps: [${step}]`);
  if (!read.ok) throw new Error(JSON.stringify(read.faults));
  await expect(stage.play(read.script)).rejects.toThrow(fault);
  await stage.close();
});
