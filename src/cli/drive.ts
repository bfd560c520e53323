import { randomUUID } from "node:crypto";
import type { AgentView } from "../client/answers.ts";
import type { Client } from "../client/client.ts";
import { ClientError } from "../client/client-error.ts";
import { CAR_CAST, CAR_SCENES } from "./drive-car.ts";
import { CAST, type Cast, SCENES, type Scene } from "./drive-scenes.ts";
import { type Bilingual, type SceneCheck, SceneFault, Stage } from "./drive-stage.ts";
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

interface Drive {
  title: Bilingual;
  cast: Cast;
  scenes: readonly Scene[];
}

/** The drives, one for each catalogue that ships. */
const FOUR_SCENES: Drive = {
  title: { en: "Four scenes of a drive", zh: "行车途中的四个场景" },
  cast: CAST,
  scenes: SCENES,
};
const DRIVES: readonly Drive[] = [
  FOUR_SCENES,
  {
    title: { en: "A drive in which several agents are heard together", zh: "几个智能体同时发声的一程" },
    cast: CAR_CAST,
    scenes: CAR_SCENES,
  },
];

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
    const found = DRIVES.find(({ cast }) => findMismatches(agents, cast).length === 0);
    if (!found) {
      print("The scenes are written for the shipped catalogue, and this node has another:");
      for (const mismatch of findMismatches(agents, FOUR_SCENES.cast)) print(`  ${mismatch}`);
      return 1;
    }
    print(paint("title", found.title[language]));
    print(`${baseUrl} · ${drawLegend(paint, language)}`);
    const nameOf = namesOf(agents, language === "zh" ? found.cast : {});
    const driveId = randomUUID().slice(0, 8);
    const played: Played[] = [];
    for (const [index, scene] of found.scenes.entries()) {
      print();
      print(paint("title", `${index + 1}  ${scene.title[language]}`));
      for (const line of wrapToWidth(scene.story[language], WIDTH - 3)) print(`   ${paint("quiet", line)}`);
      const userId = `drive-${driveId}-${index + 1}`;
      print(`   ${paint("quiet", `${baseUrl.replace(/\/$/, "")}/#/floor/u%3A${userId}`)}`);
      print();
      played.push(await play(scene, { client, userId, language, nameOf, paint, print, options }));
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
  nameOf: (agentId: string) => string;
  paint: Paint;
  print: (line?: string) => void;
  options: DriveOptions;
}

async function play(scene: Scene, setting: Setting): Promise<Played> {
  const { client, userId, language, nameOf, paint, print, options } = setting;
  const { patienceMs = PATIENCE_MS, signal, env } = options;
  const stage = await Stage.open({ client, userId, language, patienceMs, signal });
  let fault: unknown;
  try {
    await scene.play(stage);
  } catch (error) {
    fault = error;
  }
  try {
    await stage.close();
  } catch (error) {
    fault ??= error;
  }
  if (signal?.aborted || isLost(fault)) throw fault;
  stage.check(
    { en: "at no time were two sessions active", zh: "任何时刻都没有两个会话同时激活" },
    stage.mostActive === 1,
  );
  if (fault) stage.check(explain(fault, "", env), false);

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
  for (const check of stage.checks) print(`   ${checkLine(check, language, paint)}`);
  return { passed: stage.checks.every(({ isMet }) => isMet), durationMs: timeline.durationMs };
}

function checkLine({ text, isMet }: SceneCheck, language: Language, paint: Paint): string {
  const mark = isMet ? paint("active", "✓") : paint("refused", "✗");
  const notSo = { en: "not so: ", zh: "并非如此：" };
  return `${mark} ${cutToWidth(isMet ? text : `${notSo[language]}${text}`, WIDTH - 5)}`;
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

/** The agents of the scenes that this node lacks or configures differently, one sentence each. */
function findMismatches(agents: readonly AgentView[], cast: Cast): string[] {
  return Object.entries(cast).flatMap(([id, { priority, interruptible }]) => {
    const agent = agents.find((each) => each.id === id);
    if (!agent) return [`there is no ${id}`];
    const lines: string[] = [];
    if (agent.priority !== priority) lines.push(`${id} has priority ${agent.priority}, not ${priority}`);
    if (agent.interruptible !== interruptible) lines.push(`${id} is ${interruptible ? "not " : ""}interruptible`);
    return lines;
  });
}

/** @param cast agents whose names are those of the scenes */
function namesOf(agents: readonly AgentView[], cast: Cast): (agentId: string) => string {
  const names = new Map(agents.map(({ id, name }) => [id as string, name]));
  return (agentId) => cast[agentId]?.zh ?? names.get(agentId) ?? agentId;
}

/** Whether the node is unreachable, so that no further scene can be played. */
const isLost = (fault: unknown): boolean => fault instanceof ClientError && fault.code === "unreachable";

function explain(error: unknown, baseUrl: string, env: DriveOptions["env"] = {}): string {
  return error instanceof SceneFault || error instanceof TypeError
    ? error.message
    : explainFailure(error, { baseUrl, env });
}
