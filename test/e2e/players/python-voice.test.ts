import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { Meter } from "../../../examples/car/sound/meter.ts";
import { SoundServer } from "../../../examples/car/sound/sound-server.ts";
import { speakAsDriver, synthesise } from "../../../examples/car/sound/speech.ts";
import { type ChildServer, makeInstallation } from "../../support/nodes/child-server.ts";
import { PLAYERS } from "../../support/nodes/players.ts";
import { describeWith, testWith } from "../../support/programs/suites.ts";
import { freePort } from "../../support/servers/free-port.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

const pathOf = (path: string) => fileURLToPath(new URL(`../../../${path}`, import.meta.url));
const VOICE = pathOf("examples/python-voice/voice.py");
const GRAMMAR = pathOf("examples/python-voice/talk.jsgf");
const HEADER_BYTES = 44;

const WEATHER = "It is sunny 😀 and warm.";
/** Minutes of speech. */
const STORY = "Once upon a time there was a fox. ".repeat(90);
const replies = [{ match: "story", say: [STORY] }, { say: [WEATHER] }];
const AGENTS = [
  ...PLAYERS.map((agent) => (agent.lease === undefined ? agent : { ...agent, lease: "1h" })),
  { name: "voice", priority: 50, when_preempted: "duck", adapter: { kind: "scripted", replies } },
  { name: "phone", priority: 90 },
];

/** The voice loop. */
class Voice {
  readonly lines: string[] = [];
  readonly ended: Promise<unknown>;
  readonly #child: ChildProcess;
  readonly #sound: Buffer[] = [];

  constructor(python: string, env: NodeJS.ProcessEnv, ...options: readonly string[]) {
    const child = spawn(python, [VOICE, ...options], {
      env: { ...process.env, PYTHONPATH: pathOf("clients/python/src"), ...env },
      stdio: ["pipe", "pipe", "pipe"],
    });
    child.stdout.on("data", (chunk: Buffer) => this.#sound.push(chunk));
    createInterface(child.stderr).on("line", (line) => this.lines.push(line));
    this.ended = once(child, "close").then(([code, signal]) => code ?? signal);
    this.#child = child;
    onTestFinished(() => void child.kill("SIGKILL"));
  }

  say(line: string): void {
    this.#child.stdin!.write(`${line}\n`);
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  get sound(): Int16Array {
    const bytes = Buffer.concat(this.#sound);
    return new Int16Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + (bytes.length & ~1)));
  }

  /** Resolves when it has written more. */
  async sounds(): Promise<void> {
    const { length } = this.sound;
    await expect.poll(() => this.sound.length).toBeGreaterThan(length);
  }

  async prints(line: RegExp): Promise<void> {
    await expect.poll(() => this.lines.at(-1)).toMatch(line);
  }
}

describeWith(["python", "espeak", "curl"], "the voice loop in Python", (python, _espeak, curl) => {
  let node: ChildServer;
  const closers: (() => Promise<void>)[] = [];

  beforeAll(async () => {
    const installation = await makeInstallation({ agents: AGENTS }, {}, (close) => closers.push(close));
    node = await installation.start();
  });
  afterAll(async () => {
    for (const close of closers.toReversed()) await close();
  });

  /** As a person does it in a terminal. */
  async function post(path: string, body: object): Promise<void> {
    const request = ["-sf", `${node.url}${path}`, "-H", "Content-Type: application/json", "-d", JSON.stringify(body)];
    await promisify(execFile)(curl, request);
  }
  const begin = (userId: string, id: string, agentId: string) =>
    post("/session/create", { id, agentId, userId, activate: true });
  const archive = (id: string) => post(`/session/${id}/archive`, {});
  const talkAs = (user: string, env: NodeJS.ProcessEnv = {}, ...options: readonly string[]) =>
    new Voice(python, env, "--url", node.url, "--user", user, "--session", user, "--agent", "voice", ...options);
  const heard = async (id: string): Promise<(number | undefined)[]> => {
    const { messages } = (await node.ask("GET", `/session/${id}/messages`)).body;
    return messages.filter(({ role }) => role === "assistant").map(({ playedUpTo }) => playedUpTo);
  };

  test("a reply is silent during a call, quieter beneath a prompt, and nothing of it is lost or said twice", async () => {
    const voice = talkAs("ann");
    voice.say("What is the weather like?");
    await voice.sounds();
    await begin("ann", "call", "phone");
    await voice.prints(/^paused/);
    await archive("call");
    await voice.prints(/^active/);
    await begin("ann", "left", "prompt");
    await voice.prints(/^ducked/);
    await archive("left");
    await expect.poll(() => heard("ann")).toEqual([WEATHER.length]);
    voice.signal("SIGTERM");
    expect(await voice.ended).toBe(0);
    expect((await node.ask("GET", "/session/ann")).body.session.state).toBe("archived");

    const { folder } = await makeFolder(onTestFinished);
    const bytes = await readFile(await synthesise(WEATHER, join(folder, "weather.wav")));
    const own = new Int16Array(bytes.buffer.slice(bytes.byteOffset + HEADER_BYTES, bytes.byteOffset + bytes.length));
    expect(voice.sound).toHaveLength(own.length);
    const wrong = [...voice.sound].findIndex((sample, at) => {
      const written = own[at]!;
      return sample !== written && sample !== Math.trunc(written * 10 ** (-14 / 20));
    });
    expect(wrong).toBe(-1);
  });

  test("what the user says next ends what is spoken, at a word", async () => {
    const voice = talkAs("bob");
    voice.say("Tell me a story");
    await expect.poll(() => heard("bob")).toEqual([expect.any(Number)]);
    voice.say("And the weather?");
    await expect.poll(async () => (await heard("bob"))[1]).toBe(WEATHER.length);
    const [cut] = await heard("bob");
    expect(cut).toBeLessThan(STORY.length);
    expect(STORY.slice(0, cut)).toMatch(/^$|\s$/);
    expect(STORY.slice(cut)).toMatch(/^\S/);
  });

  test("a refusal is told, and the conversation goes on", async () => {
    await begin("cid", "cid-call", "phone");
    const voice = talkAs("cid");
    voice.say("What is the weather like?");
    await voice.prints(/^Phone is running/);
    await archive("cid-call");
    voice.say("What is the weather like?");
    await expect.poll(() => heard("cid")).toEqual([WEATHER.length]);
  });

  test("when its user moves the session to another floor, it goes on there, and what is said next is answered", async () => {
    const voice = talkAs("fay");
    voice.say("What is the weather like?");
    await voice.sounds();
    const { id } = (await node.post("/session/fay/move", { zone: "rear" })).body.session;
    await expect.poll(() => heard(id)).toEqual([WEATHER.length]);
    const call = { id: "fay-call", agentId: "phone", userId: "fay", zone: "rear", activate: true };
    await post("/session/create", call);
    await voice.prints(/^paused/);
    await archive("fay-call");
    await voice.prints(/^active/);
    voice.say("What is the weather like?");
    await expect.poll(() => heard(id)).toEqual([WEATHER.length, WEATHER.length]);
    voice.signal("SIGTERM");
    expect(await voice.ended).toBe(0);
    expect((await node.ask("GET", `/session/${id}`)).body.session.state).toBe("archived");
  });

  test("over a killed node it speaks on, and the conversation continues", async () => {
    const installation = await makeInstallation({ agents: AGENTS }, { PORT: String(await freePort()) });
    const first = await installation.start();
    const voice = new Voice(python, {}, "--url", first.url, "--user", "eve", "--session", "eve", "--agent", "voice");
    voice.say("Tell me a story");
    await voice.sounds();
    await first.kill();
    await voice.sounds();
    const second = await installation.start();
    voice.say("And the weather?");
    const newest = async () => {
      const { messages } = (await second.ask("GET", "/session/eve/messages")).body;
      return messages.at(-1);
    };
    await expect.poll(newest).toMatchObject({ content: WEATHER, playedUpTo: WEATHER.length });
    await second.kill();
    voice.signal("SIGTERM");
    expect(await voice.ended).toBe(0);
  });

  testWith(
    ["pulseaudio", "parec", "flite", "pocketsphinx"],
    "it understands what is said, is heard, and is silent during a call",
    async () => {
      const { folder } = await makeFolder(onTestFinished);
      const server = await SoundServer.open(folder, ["voice", "microphone"]);
      onTestFinished(() => server[Symbol.asyncDispose]());
      const meter = await Meter.open("voice", server.environment);
      onTestFinished(() => meter[Symbol.dispose]());
      const words = await speakAsDriver("tell me a story", folder);
      const microphone = ["--listen", "microphone.monitor", "--grammar", GRAMMAR];
      const voice = talkAs("dan", { ...server.environment }, "--play", "voice", ...microphone);
      voice.say("press");
      await voice.prints(/^listening$/);
      await promisify(execFile)("paplay", ["--device=microphone", words], {
        env: { ...process.env, ...server.environment },
      });
      voice.say("release");
      await expect.poll(() => voice.lines).toContain("heard tell me a story");
      await meter.until("the story", (level) => level > -45);
      await begin("dan", "dan-call", "phone");
      await meter.until("silence", (level) => level === Number.NEGATIVE_INFINITY);
      await archive("dan-call");
      await meter.until("the rest of the story", (level) => level > -45);
    },
  );
});
