import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Store } from "../../../src/store/store.ts";

type Method = Exclude<keyof Store, "epoch" | "secret">;

export interface StoreCall {
  id: number;
  method: Method;
  given: unknown[];
}

type Answer = { opened: true } | { failed: string } | { id: number; result?: unknown; code?: string };

const CHILD = fileURLToPath(new URL("./store-child.ts", import.meta.url));

/** A SQLite store in a separate process, which a test can kill or limit. */
export class StoreProcess {
  readonly #child: ChildProcess;
  readonly #calls = new Map<number, PromiseWithResolvers<unknown>>();
  #lastId = 0;

  private constructor(child: ChildProcess) {
    this.#child = child;
    child.on("message", (answer: Answer) => {
      if (!("id" in answer)) return;
      const call = this.#calls.get(answer.id);
      if (answer.code === undefined) call?.resolve(answer.result);
      else call?.reject(new Error(answer.code));
    });
  }

  /**
   * `maxFileKib`: the largest size of a file that it writes, until `prlimit` changes it.
   * @throws Error with the reason if the store could not be opened
   */
  static async start(file: string, options: { maxFileKib?: number } = {}): Promise<StoreProcess> {
    const { maxFileKib } = options;
    const own = [process.execPath, CHILD, file];
    const limited = ["bash", "-c", `ulimit -S -f ${maxFileKib}; exec "$0" "$@"`, ...own];
    const [command, ...args] = maxFileKib === undefined ? own : limited;
    const child = spawn(command!, args, {
      stdio: ["ignore", "ignore", "inherit", "ipc"],
      serialization: "advanced",
    });
    const started = new StoreProcess(child);
    const [answer] = (await once(child, "message")) as [Answer];
    if ("failed" in answer) throw new Error(answer.failed);
    return started;
  }

  get pid(): number {
    return this.#child.pid!;
  }

  call<M extends Method>(method: M, ...given: Parameters<Store[M]>): ReturnType<Store[M]> {
    this.#lastId += 1;
    const settle = Promise.withResolvers<unknown>();
    this.#calls.set(this.#lastId, settle);
    this.#child.send({ id: this.#lastId, method, given } satisfies StoreCall);
    return settle.promise as ReturnType<Store[M]>;
  }

  /** SIGKILL; resolves when the process has ended. */
  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await gone;
  }
}
