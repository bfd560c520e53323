import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import { fileURLToPath } from "node:url";
import { type Client, createClient } from "../../src/client/interlock-client.ts";
import { openNode } from "./node.ts";
import { startSessionBus } from "./session-bus.ts";
import { Meter } from "./sound/meter.ts";
import { writeSong } from "./sound/song.ts";
import { SoundServer } from "./sound/sound-server.ts";
import { synthesise } from "./sound/speech.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PROGRAMS = fileURLToPath(new URL("programs/", import.meta.url));
export const GRAMMAR = fileURLToPath(new URL("driver.jsgf", import.meta.url));
/** The null sinks of the car's sounds. The driver speaks into the last one. */
const SINKS = ["music", "voice", "phone", "microphone"] as const;
type Sink = (typeof SINKS)[number];
const DRIVER = "driver";

/** Long enough for a call: the caller repeats this. */
const CALLER_SAYS = "Hello, it is me. I am already on my way. ".repeat(15);

/** One program of the car. */
export interface Program {
  readonly child: ChildProcess;
  /** The lines of its standard output. */
  readonly lines: Interface;
  /** @returns when it has ended */
  end(signal?: NodeJS.Signals): Promise<void>;
}

/**
 * A car: a node with `config/car.yaml`, a sound server, a session bus, `interlock players` with `config/players.yaml`,
 * and programs with sound.
 */
export class Car implements AsyncDisposable {
  readonly userId = DRIVER;
  readonly folder: string;
  readonly client: Client;
  /** A chord with the same level at every moment. */
  readonly song: string;
  /** The caller's words. */
  readonly caller: string;
  readonly #environment: Readonly<Record<string, string | undefined>>;
  readonly #meters: Readonly<Record<Sink, Meter>>;
  readonly #opened: AsyncDisposableStack;

  private constructor(parts: {
    folder: string;
    url: string;
    song: string;
    caller: string;
    environment: Readonly<Record<string, string | undefined>>;
    meters: Readonly<Record<Sink, Meter>>;
    opened: AsyncDisposableStack;
  }) {
    this.folder = parts.folder;
    this.client = createClient({ baseUrl: parts.url });
    this.song = parts.song;
    this.caller = parts.caller;
    this.#environment = parts.environment;
    this.#meters = parts.meters;
    this.#opened = parts.opened;
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
    const caller = await synthesise(CALLER_SAYS, join(folder, "caller.wav"));
    const url = await openNode(folder, opening);
    const socket = join(folder, "bus");
    const environment = {
      ...process.env,
      ...sound.environment,
      // The settings and notes of the machine's user are neither read nor changed.
      XDG_CONFIG_HOME: join(folder, "config"),
      XDG_STATE_HOME: join(folder, "state"),
      DBUS_SESSION_BUS_ADDRESS: `unix:path=${socket}`,
      INTERLOCK_URL: url,
      CAR_USER: DRIVER,
      CAR_FOLDER: folder,
    };
    const bus = await startSessionBus(socket, environment);
    opening.defer(() => endOf(bus, "SIGKILL"));
    await openBridge(environment, opening);
    return new Car({ folder, url, song, caller, environment, meters, opened: opening.move() });
  }

  meter(sink: Sink): Meter {
    return this.#meters[sink];
  }

  /** Start one of the programs in `programs/`. It is killed when the car is closed. */
  start(name: string, ...options: readonly string[]): Program {
    return this.#spawn(process.execPath, [join(PROGRAMS, `${name}.ts`), ...options]);
  }

  /** Play the song with mpv, which knows nothing of Interlock: the bridge makes it obey. */
  playMusic(): Program {
    return this.#spawn("mpv", ["--no-video", "--no-terminal", "--loop-file=inf", this.song], { PULSE_SINK: "music" });
  }

  /** A call: a stream with the role of a phone. Its program knows nothing of Interlock either, and has no controls. */
  playCall(): Program {
    return this.#spawn("paplay", ["--property=media.role=phone", "--device=phone", this.caller]);
  }

  #spawn(command: string, options: readonly string[], environment: NodeJS.ProcessEnv = {}): Program {
    const child = spawn(command, options, {
      env: { ...this.#environment, ...environment },
      stdio: ["pipe", "pipe", "inherit"],
    });
    const end = (signal: NodeJS.Signals = "SIGTERM") => endOf(child, signal);
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

/**
 * Start `interlock players` for the driver.
 *
 * @param opening ends the bridge when it is disposed
 * @throws Error if it ends; its output on stderr names the cause
 */
async function openBridge(environment: NodeJS.ProcessEnv, opening: AsyncDisposableStack): Promise<void> {
  const { INTERLOCK_URL: url = "" } = environment;
  const options = ["players", join(ROOT, "config/players.yaml"), "--url", url, "--user", DRIVER];
  const bridge = spawn(process.execPath, [join(ROOT, "bin/interlock.js"), ...options], {
    env: environment,
    stdio: ["ignore", "pipe", "inherit"],
  });
  opening.defer(() => endOf(bridge, "SIGTERM"));
  for await (const line of createInterface({ input: bridge.stdout! })) {
    if (!line.includes("players take part")) continue;
    bridge.stdout!.resume();
    return;
  }
  throw new Error("interlock players did not start");
}

/** End a process, unless it has ended. */
async function endOf(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill(signal);
  await ended;
}
