import type { LoggedServerEvent } from "../client/server-event.ts";
import { isAudibleState } from "../protocol/written-state.ts";

/** What happened to the sessions of one agent, together. */
export interface AgentTally {
  granted: number;
  rejected: number;
  queued: number;
  audibleMs: number;
  /** Since the first sound of a session, until its end. */
  silentMs: number;
}

interface Life {
  agentId: string;
  state: string;
  /** Undefined before the first sound. */
  since: number | undefined;
}

/** Counts, from a floor's events, decisions and how long sessions were audible and silent. */
export class Tally {
  readonly #agents = new Map<string, AgentTally>();
  readonly #lives = new Map<string, Life>();

  add(event: LoggedServerEvent, at: number): void {
    const { sessionId = "" } = event;
    if (event.type === "session_created") {
      this.#lives.set(sessionId, { agentId: event.data.agentId, state: "created", since: undefined });
    } else if (event.type === "arbitration") this.of(event.data.challenger.agentId)[event.data.outcome] += 1;
    else if (event.type === "session_transition") this.#step(sessionId, event.data.to, at);
    else if (event.type === "agent_switched") {
      const life = this.#lives.get(sessionId)!;
      this.#count(life, at);
      life.agentId = event.data.currentAgentId;
    }
  }

  /** The wall clock was set by this many ms. */
  jump(ms: number): void {
    for (const life of this.#lives.values()) if (life.since !== undefined) life.since += ms;
  }

  /** The play is over. */
  end(at: number): void {
    for (const life of this.#lives.values()) this.#count(life, at);
  }

  of(agentId: string): AgentTally {
    let tally = this.#agents.get(agentId);
    if (!tally) {
      tally = { granted: 0, rejected: 0, queued: 0, audibleMs: 0, silentMs: 0 };
      this.#agents.set(agentId, tally);
    }
    return tally;
  }

  #step(sessionId: string, to: string, at: number): void {
    const life = this.#lives.get(sessionId);
    if (!life) return;
    this.#count(life, at);
    life.state = to;
    if (isAudibleState(to)) life.since ??= at;
    if (to === "archived" || to === "deleted") this.#lives.delete(sessionId);
  }

  #count(life: Life, at: number): void {
    const { agentId, state, since } = life;
    if (since === undefined) return;
    this.of(agentId)[isAudibleState(state) ? "audibleMs" : "silentMs"] += at - since;
    life.since = at;
  }
}
