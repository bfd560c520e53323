import type { AgentInfo } from "../../protocol/session.ts";
import type { Client, ConnectionOptions } from "../client.ts";
import { Live, type LiveState } from "./live.ts";

export interface ConnectionView extends LiveState {
  /** Name this id when creating or loading sessions, so that their events arrive through this connection. */
  connectionId?: string | undefined;
  /** The catalogue's enabled agents; empty before the first answer. */
  agents: readonly AgentInfo[];
  /** The agent of sessions that name none. */
  defaultAgentId?: string | undefined;
}

/** A connection to the server: its status, and the agents that the server offers. */
export class LiveConnection extends Live<ConnectionView> {
  readonly #client: Client;
  readonly #options: Pick<ConnectionOptions, "userId" | "zone">;
  #position: string | undefined;

  constructor(client: Client, options: Pick<ConnectionOptions, "userId" | "zone"> = {}) {
    super({ status: "connecting", agents: [] });
    this.#client = client;
    this.#options = options;
  }

  protected async follow(signal: AbortSignal): Promise<void> {
    const { note: onStatus } = this;
    const stream = this.#client.openConnection({ ...this.#options, position: this.#position, signal, onStatus });
    for await (const { type, data } of stream) {
      this.#position = stream.position;
      if (type === "connected") this.change({ connectionId: data.connectionId });
      if (type === "agent_list") this.change({ agents: data.agents, defaultAgentId: data.currentAgentId });
    }
  }
}
