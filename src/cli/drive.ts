import { randomUUID } from "node:crypto";
import type { AgentView } from "../client/answers.ts";
import { type Client, createClient } from "../client/client.ts";
import { ClientError } from "../client/client-error.ts";
import type { Output } from "./check.ts";
import { CAST, SCENES, type Scene } from "./drive-scenes.ts";
import { SceneFault, Stage } from "./drive-stage.ts";
import { type Line, narrate } from "./narration.ts";
import { type Paint, paintFor } from "./paint.ts";
import { cutToWidth, fitToWidth, plainLine, widthOf, wrapToWidth } from "./text-width.ts";
import { drawLegend, drawTimeline, readTimeline } from "./timeline.ts";

/** Where the timeline goes; a terminal says that it is one. */
export interface Screen extends Output {
  isTTY?: boolean | undefined;
}

export interface DriveOptions {
  /** What a scene waits for comes within so many ms, or it breaks off; default 10 000. */
  patienceMs?: number | undefined;
  /** Ends the drive, and whatever it runs on the server. */
  signal?: AbortSignal | undefined;
  env?: Readonly<Record<string, string | undefined>> | undefined;
}

/** What is said to one who may not act for others: theirs looks as if it were not there. */
const LOCKED_OUT: ReadonlySet<string> = new Set(["unauthorized", "forbidden", "not_found"]);
const WIDTH = 100;
/** What was said is told in so many lines at most. */
const MAX_LINES = 3;
const PATIENCE_MS = 10_000;

interface Played {
  passed: boolean;
  durationMs: number;
}

/**
 * `interlock drive [URL]`: play the four scenes of the priority rules against a running node, each with a user of its
 * own, and print what happened as a timeline. A node that wants to know who asks is shown `INTERLOCK_TOKEN`, which is to
 * be an operator's: the users are made up.
 *
 * @returns the exit code: 0 when every scene went as the rules say, else 1
 */
export async function drive(baseUrl: string, out: Screen, options: DriveOptions = {}): Promise<number> {
  const { env = process.env, signal } = options;
  const paint = paintFor(out, env);
  const print = (line = "") => out.write(`${line}\n`);
  try {
    const token = env["INTERLOCK_TOKEN"];
    const client = createClient({ baseUrl, ...(token && { headers: { Authorization: `Bearer ${token}` } }) });
    const { agents } = await client.listAgents({ signal });
    const strangers = findStrangers(agents);
    if (strangers.length > 0) {
      print("The scenes are written for the shipped catalogue, and this node has another:");
      for (const stranger of strangers) print(`  ${stranger}`);
      return 1;
    }
    print(paint("title", "Four scenes of a drive"));
    print(`${baseUrl} · ${drawLegend(paint)}`);
    const nameOf = namesOf(agents);
    const drove = randomUUID().slice(0, 8);
    const played: Played[] = [];
    for (const [index, scene] of SCENES.entries()) {
      print();
      print(paint("title", `${index + 1}  ${scene.title}`));
      for (const line of wrapToWidth(scene.story, WIDTH - 3)) print(`   ${paint("quiet", line)}`);
      print();
      const userId = `drive-${drove}-${index + 1}`;
      played.push(await play(scene, { client, userId, nameOf, paint, print, options }));
    }
    return sumUp(played, paint, print);
  } catch (error) {
    if (signal?.aborted) print("The drive was stopped.");
    else print(explain(error, baseUrl));
    return 1;
  }
}

interface Setting {
  client: Client;
  userId: string;
  nameOf: (agentId: string) => string;
  paint: Paint;
  print: (line?: string) => void;
  options: DriveOptions;
}

async function play(scene: Scene, setting: Setting): Promise<Played> {
  const { client, userId, nameOf, paint, print, options } = setting;
  const { patienceMs = PATIENCE_MS, signal } = options;
  const stage = await Stage.open({ client, userId, patienceMs, signal });
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
  stage.check("at no time were two sessions active", stage.mostActive === 1);
  if (fault) stage.check(explain(fault, ""), false);

  const timeline = readTimeline(stage.floor);
  const lines = narrate(stage.heard, stage.floor, nameOf);
  const startedAt = stage.floor[0] ? Date.parse(stage.floor[0].timestamp) : 0;
  for (const line of layOut(lines, startedAt, nameOf, paint)) print(line);
  print();
  for (const line of drawTimeline(timeline, { width: WIDTH - 3, nameOf, paint })) print(`   ${line}`);
  print();
  for (const { text, holds } of stage.checks) {
    const mark = holds ? paint("active", "✓") : paint("refused", "✗");
    print(`   ${mark} ${cutToWidth(holds ? text : `not so: ${text}`, WIDTH - 5)}`);
  }
  return { passed: stage.checks.every(({ holds }) => holds), durationMs: timeline.durationMs };
}

/** Seconds, who, and what; no line is wider than the page. */
function layOut(lines: readonly Line[], startedAt: number, nameOf: Setting["nameOf"], paint: Paint): string[] {
  const nameColumns = Math.max(0, ...lines.map(({ agentId }) => widthOf(nameOf(agentId))));
  const room = WIDTH - nameColumns - 14;
  return lines.flatMap(({ at, agentId, mark, style, text }) => {
    const seconds = paint("quiet", `${(Math.max(0, at - startedAt) / 1_000).toFixed(1)} s`.padStart(8));
    const head = `${seconds}  ${fitToWidth(nameOf(agentId), nameColumns)}  `;
    const told = wrapToWidth(cutToWidth(plainLine(text), room * MAX_LINES), room);
    return told.map((piece, index) => {
      const marked = index === 0 ? `${mark} ${piece}` : `  ${piece}`;
      return (index === 0 ? head : " ".repeat(nameColumns + 12)) + (style ? paint(style, marked) : marked);
    });
  });
}

function sumUp(played: readonly Played[], paint: Paint, print: Setting["print"]): number {
  const passed = played.filter((scene) => scene.passed).length;
  const seconds = (played.reduce((sum, { durationMs }) => sum + durationMs, 0) / 1_000).toFixed(1);
  print();
  if (passed === played.length) {
    print(paint("active", `All ${passed} scenes went as the rules say, in ${seconds} s.`));
    return 0;
  }
  const numbers = played.flatMap((scene, index) => (scene.passed ? [] : [index + 1])).join(", ");
  print(paint("refused", `${passed} of ${played.length} scenes went as the rules say; not so: scene ${numbers}.`));
  return 1;
}

/** Agents that the scenes need and this node lacks, or has with other numbers. */
function findStrangers(agents: readonly AgentView[]): string[] {
  return Object.entries(CAST).flatMap(([id, { priority, interruptible }]) => {
    const agent = agents.find((each) => each.id === id);
    if (!agent) return [`there is no ${id}`];
    const lines: string[] = [];
    if (agent.priority !== priority) lines.push(`${id} has priority ${agent.priority}, not ${priority}`);
    if (agent.interruptible !== interruptible) lines.push(`${id} is ${interruptible ? "not " : ""}interruptible`);
    return lines;
  });
}

function namesOf(agents: readonly AgentView[]): (agentId: string) => string {
  const names = new Map(agents.map(({ id, name }) => [id as string, plainLine(name)]));
  return (agentId) => names.get(agentId) ?? agentId;
}

/** Whether there is nobody to go on with. */
const isLost = (fault: unknown): boolean => fault instanceof ClientError && fault.code === "unreachable";

function explain(error: unknown, baseUrl: string): string {
  if (error instanceof ClientError && error.code === "unreachable") {
    return `No server answers at ${baseUrl}. Start one with \`interlock serve\`, or name another: interlock drive URL`;
  }
  if (error instanceof ClientError && error.code === "unexpected_answer") {
    return `What answers at ${baseUrl} is not Interlock. ${error.message}`;
  }
  if (error instanceof ClientError && LOCKED_OUT.has(error.code)) {
    return `The node at ${baseUrl} does not let just anybody in: set INTERLOCK_TOKEN to an operator's token or key.`;
  }
  if (error instanceof ClientError) return `the server refused with ${error.code}: ${error.message}`;
  if (error instanceof SceneFault || error instanceof TypeError) return error.message;
  throw error;
}
