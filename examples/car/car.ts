import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import { fileURLToPath } from "node:url";
import { type Client, createClient } from "../../src/client/interlock-client.ts";
import { openNode } from "./node.ts";
import { Meter } from "./sound/meter.ts";
import { writeSong } from "./sound/song.ts";
import { SoundServer } from "./sound/sound-server.ts";
import { synthesise } from "./sound/speech.ts";

const PROGRAMS = fileURLToPath(new URL("programs/", import.meta.url));
export const GRAMMAR = fileURLToPath(new URL("driver.jsgf", import.meta.url));
/** The null sinks of the car's sounds. The driver speaks into the last one. */
const SINKS = ["music", "voice", "phone", "microphone"] as const;
type Sink = (typeof SINKS)[number];
const DRIVER = "driver";

/** One program of the car. */
export interface Program {
  readonly child: ChildProcess;
  /** The lines of its standard output. */
  readonly lines: Interface;
  /** @returns when it has ended */
  end(signal?: NodeJS.Signals): Promise<void>;
}

/** A car: a node with `config/car.yaml`, a sound server, and programs with sound. */
export class Car implements AsyncDisposable {
  readonly userId = DRIVER;
  readonly folder: string;
  readonly client: Client;
  /** A chord with the same level at every moment. */
  readonly song: string;
  /** The caller's words. */
  readonly caller: string;
  readonly sound: SoundServer;
  readonly #environment: Readonly<Record<string, string | undefined>>;
  readonly #meters: Readonly<Record<Sink, Meter>>;
  readonly #opened: AsyncDisposableStack;

  private constructor(parts: {
    folder: string;
    url: string;
    song: string;
    caller: string;
    sound: SoundServer;
    meters: Readonly<Record<Sink, Meter>>;
    opened: AsyncDisposableStack;
  }) {
    this.folder = parts.folder;
    this.client = createClient({ baseUrl: parts.url });
    this.song = parts.song;
    this.caller = parts.caller;
    this.sound = parts.sound;
    this.#meters = parts.meters;
    this.#opened = parts.opened;
    const own = { INTERLOCK_URL: parts.url, CAR_USER: DRIVER, CAR_FOLDER: parts.folder };
    this.#environment = { ...process.env, ...parts.sound.environment, ...own };
  }

  /** @throws Error if a program is missing or does not start */
  static async open(): Promise<Car> {
    await using opening = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), "interlock-car-"));
    opening.defer(() => rm(folder, { recursive: true, force: true }));
    const sound = opening.use(await SoundServer.open(folder, SINKS));
    const meters = {} as Record<Sink, Meter>;
    for (const sink of SINKS) meters[sink] = opening.use(await Meter.open(sink, sound.environment));
    const song = await writeSong(join(folder, "song.wav"));
    const caller = await synthesise("Hello, it is me. I am already on my way.", join(folder, "caller.wav"));
    const url = await openNode(folder, opening);
    return new Car({ folder, url, song, caller, sound, meters, opened: opening.move() });
  }

  meter(sink: Sink): Meter {
    return this.#meters[sink];
  }

  /** Start one of the programs in `programs/`. It is killed when the car is closed. */
  start(name: string, ...options: readonly string[]): Program {
    const child = spawn(process.execPath, [join(PROGRAMS, `${name}.ts`), ...options], {
      env: this.#environment,
      stdio: ["pipe", "pipe", "inherit"],
    });
    const ended = once(child, "exit").then(() => {});
    const end = async (signal: NodeJS.Signals = "SIGTERM") => {
      child.kill(signal);
      await ended;
    };
    this.#opened.defer(() => end("SIGKILL"));
    return { child, lines: createInterface({ input: child.stdout! }), end };
  }

  /** Play a file into the microphone, to its end. */
  async speak(file: string): Promise<void> {
    const player = spawn("paplay", ["--device=microphone", file], { env: this.#environment, stdio: "ignore" });
    const [code] = await once(player, "exit");
    if (code !== 0) throw new Error(`paplay ended with code ${code}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened.disposeAsync();
  }
}
