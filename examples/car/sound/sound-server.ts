import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** Samples per second of every sink and recording: the rate that pocketsphinx expects. */
export const SAMPLE_RATE = 16_000;

const START_MS = 10_000;

/**
 * A separate PulseAudio server with one null sink for each name. A null sink discards its sound; its monitor can be
 * recorded.
 */
export class SoundServer implements AsyncDisposable {
  /** Variables with which a program plays on this server only. */
  readonly environment: Readonly<Record<string, string>>;
  readonly #process: ChildProcess;

  private constructor(process: ChildProcess, environment: Readonly<Record<string, string>>) {
    this.#process = process;
    this.environment = environment;
  }

  /**
   * @param folder where the server keeps its socket and state
   * @throws Error if the server does not accept connections within 10 s
   */
  static async open(folder: string, sinks: readonly string[]): Promise<SoundServer> {
    const home = join(folder, "pulse");
    await mkdir(home, { recursive: true, mode: 0o700 });
    const socket = join(home, "native");
    // Its own home and runtime folder, so that the server neither reads nor changes the settings of the machine's user.
    const own = { HOME: home, XDG_RUNTIME_DIR: home, PULSE_RUNTIME_PATH: home, PULSE_STATE_PATH: home };
    const modules = [
      `module-native-protocol-unix socket=${socket} auth-anonymous=1`,
      ...sinks.map((name) => `module-null-sink sink_name=${name} rate=${SAMPLE_RATE} channels=1`),
    ];
    const options = ["-n", "--daemonize=no", "--use-pid-file=no", "--exit-idle-time=-1", "--disallow-exit"];
    const process = spawn("pulseaudio", [...options, ...modules.flatMap((module) => ["-L", module])], {
      env: { ...globalThis.process.env, ...own },
      stdio: "ignore",
    });
    await once(process, "spawn");
    const server = new SoundServer(process, { ...own, PULSE_SERVER: `unix:${socket}` });
    try {
      await accepts(socket, process);
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
    return server;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const ended = once(this.#process, "exit");
    this.#process.kill("SIGKILL");
    await ended;
  }
}

async function accepts(socket: string, process: ChildProcess): Promise<void> {
  const end = Date.now() + START_MS;
  while (Date.now() < end) {
    if (process.exitCode !== null) throw new Error(`pulseaudio ended with code ${process.exitCode}`);
    const connection = connect(socket);
    try {
      await once(connection, "connect");
      return;
    } catch {
      await sleep(20);
    } finally {
      connection.destroy();
    }
  }
  throw new Error(`pulseaudio accepted no connection within ${START_MS} ms`);
}
