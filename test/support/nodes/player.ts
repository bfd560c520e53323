import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

const MAIN = fileURLToPath(new URL("./player-main.ts", import.meta.url));

/** A separate process that sends heartbeats for a session until it is killed. It ends with the test at the latest. */
export class Player {
  readonly #child;

  private constructor(url: string, sessionId: string, leaseMs: number) {
    this.#child = spawn(process.execPath, [MAIN, url, sessionId, String(leaseMs)], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    onTestFinished(() => this.kill());
  }

  /** Resolves when its first heartbeat was answered. */
  static async start(url: string, sessionId: string, leaseMs: number): Promise<Player> {
    const player = new Player(url, sessionId, leaseMs);
    await once(player.#child.stdout, "data");
    return player;
  }

  /** SIGKILL; resolves when the process has ended. */
  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#child.kill("SIGKILL");
    await once(this.#child, "exit");
  }
}
