import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Message, NameFlag, sessionBus } from "@jellybrick/dbus-next";
import { startSessionBus } from "../../../examples/car/session-bus.ts";
import { Meter } from "../../../examples/car/sound/meter.ts";
import { writeSong } from "../../../examples/car/sound/song.ts";
import { SoundServer } from "../../../examples/car/sound/sound-server.ts";
import { type Client, createClient } from "../../../src/client/interlock-client.ts";
import { BARE_ENV } from "../agents/bare-env.ts";
import { CLI } from "../nodes/cli.ts";
import { vlcIn } from "./vlc.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const SINK = "cabin";
const MPRIS_SCRIPT = "/usr/lib/mpv-mpris/mpris.so";

const run = promisify(execFile);

/** Try again until it works, for at most 30 s. Benches start desktops too, and outside of tests `vi` does not work. */
async function untilItWorks(attempt: () => unknown): Promise<void> {
  for (const until = performance.now() + 30_000; ; await sleep(50)) {
    try {
      return void (await attempt());
    } catch (error) {
      if (performance.now() > until) throw error;
    }
  }
}

interface Parts {
  readonly env: NodeJS.ProcessEnv;
  readonly folder: string;
  readonly song: string;
  readonly stack: AsyncDisposableStack;
  readonly meter: Meter;
  readonly port: number;
  bus: ChildProcess;
  node: ChildProcess;
}

/**
 * A desktop of its own: a session bus, PipeWire or PulseAudio with one null sink, a node with `config/car.yaml`, and
 * the bridge. Players are real programs. Everything ends with `close`.
 */
export class Desktop implements AsyncDisposable {
  readonly client: Client;
  readonly meter: Meter;
  /** What the bridge printed. */
  readonly lines: string[] = [];
  /** With these variables a program is one of this desktop. */
  readonly env: NodeJS.ProcessEnv;
  readonly #parts: Parts;
  #bridge: ChildProcess;

  private constructor(parts: Parts) {
    this.#parts = parts;
    this.env = parts.env;
    this.meter = parts.meter;
    this.client = createClient({ baseUrl: `http://127.0.0.1:${parts.port}`, patienceMs: 10_000 });
    this.#bridge = this.#startBridge();
  }

  static async open(kind: "pipewire" | "pulseaudio"): Promise<Desktop> {
    await using stack = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), "interlock-desktop-"));
    stack.defer(() => rm(folder, { recursive: true, force: true }));
    const socket = join(folder, "bus");
    const home = join(folder, "home");
    await mkdir(home);
    const env: NodeJS.ProcessEnv = {
      ...BARE_ENV,
      HOME: home,
      XDG_RUNTIME_DIR: folder,
      XDG_STATE_HOME: join(folder, "state"),
      DBUS_SESSION_BUS_ADDRESS: `unix:path=${socket}`,
    };
    const bus = await startSessionBus(socket, env);
    stack.defer(() => end(bus, "SIGKILL"));
    if (kind === "pipewire") await startPipewire(env, stack);
    else {
      const server = stack.use(await SoundServer.open(folder, [SINK]));
      Object.assign(env, server.environment, { HOME: home, XDG_RUNTIME_DIR: folder });
    }
    const song = await writeSong(join(folder, "song.wav"));
    const { node, port } = await startNode(folder, 0);
    stack.defer(() => end(node, "SIGKILL"));
    const meter = stack.use(await Meter.open(SINK, env as Record<string, string>));
    const desktop = new Desktop({ env, folder, song, stack: stack.move(), meter, port, bus, node });
    try {
      await desktop.hears("players take part");
      return desktop;
    } catch (error) {
      await desktop[Symbol.asyncDispose]();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopBridge("SIGTERM");
    for (const child of [this.#parts.node, this.#parts.bus]) await end(child, "SIGKILL");
    await this.#parts.stack.disposeAsync();
  }

  /** Start mpv with the song, as anybody would start it. */
  mpv(...options: string[]): ChildProcess {
    const usual = ["--no-config", "--no-video", "--no-terminal", "--loop-file=inf", `--script=${MPRIS_SCRIPT}`];
    return this.#player("mpv", [...usual, "--ao=pulse", ...options, this.#parts.song]);
  }

  /** Start VLC with the song, as anybody would start it. */
  async vlc(): Promise<ChildProcess> {
    const usual = ["--intf=dummy", "--no-video", "--aout=pulse", "--control=dbus", "--loop", "--no-volume-save"];
    return this.#player(await vlcIn(this.#parts.folder), [...usual, this.#parts.song]);
  }

  /** A player that cannot pause; with `pauses`, one that says that it has, and plays on. */
  stubborn(...options: "pauses"[]): ChildProcess {
    const program = join(import.meta.dirname, "stubborn-player.ts");
    return this.#player(process.execPath, [program, this.#parts.song, ...options]);
  }

  /** Show notifications, as a desktop does, instead of an earlier call. @returns their titles and texts, in order */
  async notifications(): Promise<string[]> {
    const shown: string[] = [];
    const bus = sessionBus({ busAddress: this.env["DBUS_SESSION_BUS_ADDRESS"]! });
    this.#parts.stack.defer(() => bus.disconnect());
    (bus as unknown as NodeJS.EventEmitter).on("error", () => {});
    bus.addMethodHandler((asked) => {
      if (asked.member !== "Notify") return false;
      shown.push(asked.body.slice(3, 5).join(": "));
      bus.send(Message.newMethodReturn(asked, "u", [shown.length]));
      return true;
    });
    await bus.requestName("org.freedesktop.Notifications", NameFlag.ALLOW_REPLACEMENT | NameFlag.REPLACE_EXISTING);
    return shown;
  }

  /** A program without controls, whose stream has a role. */
  stream(role: string): ChildProcess {
    return this.#player("paplay", [`--property=media.role=${role}`, this.#parts.song]);
  }

  #player(command: string, args: readonly string[]): ChildProcess {
    const child = spawn(command, args, { env: this.env, stdio: "ignore" });
    this.#parts.stack.defer(() => end(child, "SIGKILL"));
    return child;
  }

  /** What a user does in a player with its own controls. */
  async press(player: string, method: "Play" | "Pause" | "Stop" | "Next"): Promise<void> {
    const target = [`--dest=org.mpris.MediaPlayer2.${player}`, "/org/mpris/MediaPlayer2"];
    await run("dbus-send", ["--session", "--print-reply", ...target, `org.mpris.MediaPlayer2.Player.${method}`], {
      env: this.env,
    });
  }

  /** Set or change the volume of every stream, as the user does in the desktop's mixer. */
  async turn(to: string): Promise<void> {
    for (const { index } of await this.streams()) {
      await run("pactl", ["set-sink-input-volume", String(index), to], { env: this.env });
    }
  }

  async streams(): Promise<{ index: number; corked: boolean; mute: boolean }[]> {
    const { stdout } = await run("pactl", ["-f", "json", "list", "sink-inputs"], { env: this.env });
    const listed = JSON.parse(stdout) as { index: number; corked: boolean; mute: boolean }[];
    return listed.map(({ index, corked, mute }) => ({ index, corked, mute }));
  }

  /** Count what the sound server tells its clients. @returns the number until now */
  soundEvents(): () => number {
    const watcher = spawn("pactl", ["subscribe"], { env: this.env, stdio: ["ignore", "pipe", "ignore"] });
    this.#parts.stack.defer(() => end(watcher, "SIGKILL"));
    let count = 0;
    createInterface({ input: watcher.stdout }).on("line", () => (count += 1));
    return () => count;
  }

  #startBridge(): ChildProcess {
    const args = [CLI, "players", join(ROOT, "config/players.yaml"), "--url", `http://127.0.0.1:${this.#parts.port}`];
    const bridge = spawn(process.execPath, [...args, "--user", "ann"], {
      env: this.env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const output of [bridge.stdout!, bridge.stderr!]) {
      createInterface({ input: output }).on("line", (line) => this.lines.push(line));
    }
    return bridge;
  }

  /** Start a second bridge, which is to end by itself. @returns its exit code; `lines` get its output */
  async startAnother(): Promise<number | null> {
    const [code] = (await once(this.#startBridge(), "close")) as [number | null];
    return code;
  }

  /** Start the bridge again. */
  async restartBridge(): Promise<void> {
    this.lines.push("-- started again --");
    const from = this.lines.length;
    this.#bridge = this.#startBridge();
    await this.hears("players take part", from);
  }

  /** Wait until the bridge has printed a text. */
  async hears(text: string, from = 0): Promise<void> {
    await untilItWorks(() => {
      if (!this.lines.slice(from).some((line) => line.includes(text))) {
        throw new Error(`the bridge did not print "${text}", but\n${this.lines.join("\n")}`);
      }
    });
  }

  async stopBridge(signal: NodeJS.Signals): Promise<void> {
    await end(this.#bridge, signal);
  }

  async killNode(): Promise<void> {
    await end(this.#parts.node, "SIGKILL");
  }

  /** Start the node again, on its port and its store. */
  async restartNode(): Promise<void> {
    this.#parts.node = (await startNode(this.#parts.folder, this.#parts.port)).node;
  }

  /** End the session bus, and start it again at its address. */
  async restartBus(): Promise<void> {
    await end(this.#parts.bus, "SIGKILL");
    this.#parts.bus = await startSessionBus(join(this.#parts.folder, "bus"), this.env);
  }
}

async function startPipewire(env: NodeJS.ProcessEnv, stack: AsyncDisposableStack): Promise<void> {
  const start = async (command: string) => {
    const child = spawn(command, { env, stdio: "ignore" });
    stack.defer(() => end(child, "SIGKILL"));
    await once(child, "spawn");
  };
  await start("pipewire");
  // WirePlumber gives up if PipeWire does not listen yet, and then no stream is linked to a sink.
  await untilItWorks(() => run("pw-cli", ["info", "0"], { env }));
  await start("wireplumber");
  await start("pipewire-pulse");
  const properties = `{ factory.name=support.null-audio-sink node.name=${SINK} media.class=Audio/Sink object.linger=true audio.position=[MONO] }`;
  // Servers of sound have no line that says that they are ready.
  await untilItWorks(() => run("pactl", ["info"], { env }));
  await untilItWorks(() => run("pw-cli", ["create-node", "adapter", properties], { env }));
  await untilItWorks(async () => {
    const { stdout } = await run("pactl", ["list", "short", "sinks"], { env });
    if (!stdout.includes(SINK)) throw new Error("the sink is not there yet");
  });
}

async function startNode(folder: string, port: number): Promise<{ node: ChildProcess; port: number }> {
  const flags = ["--port", String(port), "--store", `sqlite:${join(folder, "car.db")}`];
  const node = spawn(process.execPath, [CLI, "serve", ...flags], {
    cwd: ROOT,
    env: { ...BARE_ENV, INTERLOCK_CONFIG: join(ROOT, "config/car.yaml") },
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: node.stdout! })) {
    const url = /\bhttp:\/\/\S+/.exec(line)?.[0];
    if (url === undefined) continue;
    node.stdout?.resume();
    return { node, port: Number(new URL(url).port) };
  }
  throw new Error("the node did not start");
}

/** End a process, unless it has ended. */
export async function end(child: ChildProcess, signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill(signal);
  await ended;
}
