import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { AgentView } from "../client/answers.ts";
import type { Client } from "../client/client.ts";
import { ClientError } from "../client/client-error.ts";
import type { Catalog } from "../config/catalog/catalog.ts";
import { loadCatalog } from "../config/catalog/catalog-file.ts";
import { SHIPPED_CATALOG } from "../config/settings.ts";
import type { Comparison } from "../policy/expectations.ts";
import { readScript, type Script } from "../policy/script.ts";
import type { AgentId } from "../protocol/ids.ts";
import { textIn } from "../protocol/locale.ts";
import { SceneFault, Stage } from "./drive-stage.ts";
import { type Language, languageOf } from "./language.ts";
import { layOut } from "./line-layout.ts";
import { narrate } from "./narration.ts";
import { clientOf, explainFailure } from "./node-client.ts";
import { type Paint, paintFor } from "./paint.ts";
import { type Output, printLines } from "./printed-lines.ts";
import { cutToWidth, wrapToWidth } from "./text-width.ts";
import { drawLegend, drawTimeline, readTimeline } from "./timeline.ts";

export interface DriveOptions {
  /** How long a scene waits for each expected event before it fails, in ms; default 10 000. */
  patienceMs?: number | undefined;
  /** The language that is spoken. Default: that of the environment, else English. */
  language?: Language | undefined;
  /** Ends the drive and its sessions on the server. */
  signal?: AbortSignal | undefined;
  env?: Readonly<Record<string, string | undefined>> | undefined;
}

const WIDTH = 100;
/** The maximum number of lines for one text. */
const MAX_LINES = 3;
const PATIENCE_MS = 10_000;

/** The folder of the scenes: scripts that `interlock simulate` plays too. */
const SCRIPTS = new URL("scripts/", pathToFileURL(SHIPPED_CATALOG));

/** The drives, one for each catalogue that ships. */
const DRIVES = [
  {
    title: { en: "Four scenes of a drive", zh: "行车途中的四个场景" },
    scripts: ["drive-1-call.yaml", "drive-2-small-talk.yaml", "drive-3-windows.yaml", "drive-4-weather.yaml"],
  },
  {
    title: { en: "A drive in which several agents are heard together", zh: "几个智能体同时发声的一程" },
    scripts: ["drive-prompt.yaml"],
  },
] as const;

interface Drive {
  title: (typeof DRIVES)[number]["title"];
  scenes: readonly Script[];
  /** What differs between the catalogue of the scenes and the node's. */
  mismatches: readonly string[];
}

interface Played {
  passed: boolean;
  durationMs: number;
}

/**
 * `interlock drive [URL]`: play the scenes of the node's catalogue against it, each with a user of its own, and print
 * what happened as a timeline. If the node requires authentication, `INTERLOCK_TOKEN` must be an operator's token,
 * because the users are generated.
 *
 * @returns the exit code: 0 when every scene followed the rules, else 1
 */
export async function drive(baseUrl: string, out: Output, options: DriveOptions = {}): Promise<number> {
  const { env = process.env, signal } = options;
  const language = options.language ?? languageOf(env);
  const paint = paintFor(out, env);
  const print = (line = "") => printLines(out, [line]);
  try {
    const client = clientOf(baseUrl, env);
    const { agents } = await client.listAgents({ signal });
    const drives = await Promise.all(DRIVES.map((each) => readDrive(each, agents)));
    const found = drives.find(({ mismatches }) => mismatches.length === 0);
    if (!found) {
      print("The scenes are written for the shipped catalogue, and this node has another:");
      for (const mismatch of drives[0]!.mismatches) print(`  ${mismatch}`);
      return 1;
    }
    print(paint("title", found.title[language]));
    print(`${baseUrl} · ${drawLegend(paint, language)}`);
    const driveId = randomUUID().slice(0, 8);
    const played: Played[] = [];
    for (const [index, scene] of found.scenes.entries()) {
      print();
      print(paint("title", `${index + 1}  ${textIn(scene.title!, language)}`));
      for (const line of wrapToWidth(textIn(scene.story!, language), WIDTH - 3)) print(`   ${paint("quiet", line)}`);
      const userId = `drive-${driveId}-${index + 1}`;
      print(`   ${paint("quiet", `${baseUrl.replace(/\/$/, "")}/#/floor/u%3A${userId}`)}`);
      print();
      played.push(await play(scene, { client, userId, language, paint, print, options }));
    }
    return sumUp(played, language, paint, print);
  } catch (error) {
    if (signal?.aborted) print("The drive was stopped.");
    else print(explain(error, baseUrl, env));
    return 1;
  }
}

interface Setting {
  client: Client;
  userId: string;
  language: Language;
  paint: Paint;
  print: (line?: string) => void;
  options: DriveOptions;
}

async function play(scene: Script, setting: Setting): Promise<Played> {
  const { client, userId, language, paint, print, options } = setting;
  const { patienceMs = PATIENCE_MS, signal, env } = options;
  const stage = await Stage.open({ client, userId, language, patienceMs, signal });
  let fault: unknown;
  try {
    await stage.play(scene);
  } catch (error) {
    fault = error;
  }
  try {
    await stage.close();
  } catch (error) {
    fault ??= error;
  }
  if (signal?.aborted || isLost(fault)) throw fault;
  stage.conclude();
  if (fault) stage.checks.push({ text: explain(fault, "", env), fault: "" });

  const nameOf = (agentId: string) => textIn(scene.names[agentId as AgentId] ?? agentId, language);
  const timeline = readTimeline(stage.floor);
  // Events of several connections arrive in any order.
  const received = stage.received.toSorted((one, other) => Date.parse(one.timestamp) - Date.parse(other.timestamp));
  const lines = narrate(received, stage.floor, nameOf, language);
  const startedAt = stage.floor[0] ? Date.parse(stage.floor[0].timestamp) : 0;
  const timeOf = (at: number) => `${(Math.max(0, at - startedAt) / 1_000).toFixed(1)} s`.padStart(8);
  const layout = { width: WIDTH, maxLines: MAX_LINES, timeOf, nameOf, maxName: WIDTH, paint };
  for (const line of layOut(lines, layout)) print(line);
  print();
  for (const line of drawTimeline(timeline, { width: WIDTH - 3, nameOf, paint })) print(`   ${line}`);
  print();
  for (const line of stage.checks.flatMap((check) => checkLines(check, language, paint))) print(`   ${line}`);
  return { passed: stage.checks.every(({ fault }) => fault === undefined), durationMs: timeline.durationMs };
}

function checkLines({ text, fault }: Comparison, language: Language, paint: Paint): string[] {
  if (fault === undefined) return [`${paint("active", "✓")} ${cutToWidth(text, WIDTH - 5)}`];
  const notSo = { en: "not so: ", zh: "并非如此：" };
  const why = fault === "" ? [] : wrapToWidth(fault, WIDTH - 7).map((line) => `    ${line}`);
  return [`${paint("refused", "✗")} ${cutToWidth(`${notSo[language]}${text}`, WIDTH - 5)}`, ...why];
}

function sumUp(played: readonly Played[], language: Language, paint: Paint, print: Setting["print"]): number {
  const passed = played.filter((scene) => scene.passed).length;
  const seconds = (played.reduce((sum, { durationMs }) => sum + durationMs, 0) / 1_000).toFixed(1);
  print();
  if (passed === played.length) {
    const all = passed === 1 ? "The scene" : `All ${passed} scenes`;
    const text = {
      en: `${all} followed the rules, in ${seconds} s.`,
      zh: `${passed} 个场景都符合规则，用时 ${seconds} 秒。`,
    };
    print(paint("active", text[language]));
    return 0;
  }
  const numbers = played.flatMap((scene, index) => (scene.passed ? [] : [index + 1])).join(", ");
  const text = {
    en: `${passed} of ${played.length} scenes followed the rules; these did not: scene ${numbers}.`,
    zh: `${played.length} 个场景中有 ${passed} 个符合规则；不符合的场景：${numbers}。`,
  };
  print(paint("refused", text[language]));
  return 1;
}

async function readDrive({ title, scripts }: (typeof DRIVES)[number], agents: readonly AgentView[]): Promise<Drive> {
  const scenes = await Promise.all(scripts.map((name) => readScene(new URL(name, SCRIPTS))));
  const path = fileURLToPath(new URL(scenes[0]!.catalogue!, SCRIPTS));
  const reading = await loadCatalog(path);
  if (!reading.ok) throw new SceneFault(`${path} has faults: interlock check ${path}`);
  return { title, scenes, mismatches: findMismatches(agents, reading.catalog) };
}

async function readScene(url: URL): Promise<Script> {
  const read = readScript(await readFile(url, "utf8"));
  if (!read.ok) throw new SceneFault(`${fileURLToPath(url)} has faults: interlock simulate ${fileURLToPath(url)}`);
  return read.script;
}

/** The agents of the scenes' catalogue that this node lacks or configures differently, one sentence each. */
function findMismatches(agents: readonly AgentView[], { agents: wanted }: Catalog): string[] {
  return [...wanted.values()].flatMap(({ id, priority, interruptible }) => {
    const agent = agents.find((each) => each.id === id);
    if (!agent) return [`there is no ${id}`];
    const lines: string[] = [];
    if (agent.priority !== priority) lines.push(`${id} has priority ${agent.priority}, not ${priority}`);
    if (agent.interruptible !== interruptible) lines.push(`${id} is ${interruptible ? "not " : ""}interruptible`);
    return lines;
  });
}

/** Whether the node is unreachable, so that no further scene can be played. */
const isLost = (fault: unknown): boolean => fault instanceof ClientError && fault.code === "unreachable";

function explain(error: unknown, baseUrl: string, env: DriveOptions["env"] = {}): string {
  return error instanceof SceneFault || error instanceof TypeError
    ? error.message
    : explainFailure(error, { baseUrl, env });
}
