import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Duplex } from "node:stream";

/**
 * One file on one sink, played by mpv and controlled over its JSON protocol. The protocol runs over an inherited
 * socket, and mpv quits when the other end closes: mpv ends when this process ends, even by SIGKILL.
 */
export class Player {
  /** Resolves when the file has been played to its end, or the player is closed. */
  readonly ended: Promise<void>;
  readonly #mpv: ChildProcess;
  readonly #commands: Duplex;

  /** The player is silent until `play`. */
  constructor(file: string, { sink, isLooped = false }: { sink: string; isLooped?: boolean }) {
    const options = ["--no-config", "--no-video", "--no-terminal", "--ao=pulse", `--audio-device=pulse/${sink}`];
    const loop = isLooped ? ["--loop-file=inf"] : [];
    this.#mpv = spawn("mpv", [...options, ...loop, "--pause", "--input-ipc-client=fd://3", "--", file], {
      stdio: ["ignore", "ignore", "inherit", "pipe"],
    });
    this.#commands = this.#mpv.stdio[3] as Duplex;
    this.#commands.on("error", () => {}).resume();
    this.ended = once(this.#mpv, "exit").then(() => {});
  }

  /** @param level how much quieter than its own volume, in dB: 0 to -60 */
  play(level: number): void {
    // mpv's volume is cubic: an amplitude of 10^(dB/20) is a volume of 100 · 10^(dB/60).
    this.#command("set_property", "volume", 100 * 10 ** (level / 60));
    this.#command("set_property", "pause", false);
  }

  /** Be silent, and keep the place in the file. */
  pause(): void {
    this.#command("set_property", "pause", true);
  }

  async close(): Promise<void> {
    this.#command("quit");
    await this.ended;
  }

  #command(...command: unknown[]): void {
    if (this.#commands.writable) this.#commands.write(`${JSON.stringify({ command })}\n`);
  }
}
