import type { Client, ServerEventOf } from "../../src/client/interlock-client.ts";

type Transition = ServerEventOf<"session_transition">["data"];

interface Heard {
  sessionId: string;
  state: string;
}

interface Wait {
  isOver: () => boolean;
  resolve: () => void;
}

/** Follows the driver's floor: prints what happens, and knows in which state each agent's newest session is. */
export class FloorWatch implements Disposable {
  readonly #agents = new Map<string, Heard>();
  readonly #agentOf = new Map<string, string>();
  readonly #waits = new Set<Wait>();
  readonly #ended = new AbortController();
  readonly #print: (line: string) => void;

  constructor(client: Client, floorId: string, print: (line: string) => void) {
    this.#print = print;
    this.#follow(client, floorId).catch((error: unknown) => {
      if (!this.#ended.signal.aborted) throw error;
    });
  }

  /** Wait until the newest session of an agent is in a state. */
  async until(agentId: string, state: string): Promise<string> {
    const isOver = () => this.#agents.get(agentId)?.state === state;
    if (!isOver()) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waits.add({ isOver, resolve });
      await promise;
    }
    return this.#agents.get(agentId)!.sessionId;
  }

  [Symbol.dispose](): void {
    this.#ended.abort();
  }

  async #follow(client: Client, floorId: string): Promise<void> {
    for await (const event of client.openFloor(floorId, { signal: this.#ended.signal })) {
      if (event.type === "session_created" && event.sessionId !== undefined) {
        this.#agentOf.set(event.sessionId, event.data.agentId);
      }
      if (event.type === "arbitration" && event.data.outcome === "rejected") {
        this.#print(`${this.#nameOf(event.sessionId)} is refused (${event.data.reason})`);
      }
      if (event.type === "session_transition" && event.sessionId !== undefined) this.#move(event.sessionId, event.data);
      for (const wait of this.#waits) {
        if (!wait.isOver()) continue;
        this.#waits.delete(wait);
        wait.resolve();
      }
    }
  }

  #nameOf(sessionId = ""): string {
    return this.#agentOf.get(sessionId) ?? sessionId;
  }

  #move(sessionId: string, { from, to, level, reason, by }: Transition): void {
    const agentId = this.#nameOf(sessionId);
    const [state = ""] = to.split(".");
    this.#agents.set(agentId, { sessionId, state });
    if (from !== null && from.split(".")[0] === state && state !== "ducked") return;
    const at = level === undefined ? "" : ` at ${level} dB`;
    const cause = by ? `, for ${by.agentId}` : "";
    this.#print(`${agentId} is ${state}${at}${reason ? ` (${reason}${cause})` : ""}`);
  }
}
