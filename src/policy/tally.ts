import type { LoggedServerEvent } from "../client/server-event.ts";
import { isRequest } from "../protocol/decision.ts";
import type { AgentTally } from "../protocol/replay.ts";
import { isAudibleState } from "../protocol/written-state.ts";

/** How long an agent's sessions were audible, in ms. */
export const audibleMs = ({ frontMs, beneathMs }: AgentTally): number => frontMs + beneathMs;

interface Life {
  agentId: string;
  state: string;
  /** Undefined before the first sound. */
  since: number | undefined;
  queuedSince?: number | undefined;
  /** The silence that has not ended. */
  silenceMs: number;
}

/** Counts, from a floor's events, decisions and how long sessions were audible and silent. */
export class Tally {
  readonly #agents = new Map<string, AgentTally>();
  readonly #lives = new Map<string, Life>();

  add(event: LoggedServerEvent, at: number): void {
    const { sessionId = "" } = event;
    if (event.type === "session_created") this.meet(sessionId, event.data.agentId);
    else if (event.type === "arbitration") this.#decide(sessionId, event.data, at);
    else if (event.type === "session_transition") this.#step(sessionId, event.data.to, at);
    else if (event.type === "agent_switched") {
      const life = this.#lives.get(sessionId);
      if (!life) return;
      this.#count(life, at);
      life.agentId = event.data.currentAgentId;
    }
  }

  /** A session that exists. `since`: it was heard before, and has been in this state since then, ms since 1970. */
  meet(sessionId: string, agentId: string, state = "created", since?: number): void {
    this.#lives.set(sessionId, { agentId, state, since, silenceMs: 0 });
  }

  /** The wall clock was set by this many ms. */
  jump(ms: number): void {
    for (const life of this.#lives.values()) {
      if (life.since !== undefined) life.since += ms;
      if (life.queuedSince !== undefined) life.queuedSince += ms;
    }
  }

  /** The play is over. */
  end(at: number): void {
    for (const life of this.#lives.values()) {
      this.#count(life, at);
      this.#leaveQueue(life, at);
    }
  }

  /** Count no session any longer: those of another floor come. */
  forget(): void {
    this.#lives.clear();
  }

  /** The agents to which something happened. */
  get agentIds(): string[] {
    return [...this.#agents.keys()];
  }

  of(agentId: string): AgentTally {
    let tally = this.#agents.get(agentId);
    if (!tally) {
      tally = {
        ...{ requests: 0, granted: 0, rejected: 0, queued: 0, refusedBy: {}, waitedMs: 0 },
        ...{ frontMs: 0, beneathMs: 0, silentMs: 0, longestSilenceMs: 0 },
      };
      this.#agents.set(agentId, tally);
    }
    return tally;
  }

  #decide(sessionId: string, decision: Extract<LoggedServerEvent, { type: "arbitration" }>["data"], at: number): void {
    const { outcome, reason, challenger } = decision;
    const tally = this.of(challenger.agentId);
    tally[outcome] += 1;
    if (isRequest(decision)) tally.requests += 1;
    if (outcome === "rejected") tally.refusedBy[reason] = (tally.refusedBy[reason] ?? 0) + 1;
    const life = this.#lives.get(sessionId);
    if (!life) return;
    if (outcome === "queued" && life.state === "created") life.queuedSince ??= at;
    else this.#leaveQueue(life, at);
  }

  #step(sessionId: string, to: string, at: number): void {
    const life = this.#lives.get(sessionId);
    if (!life) return;
    this.#count(life, at);
    if (to !== "created") this.#leaveQueue(life, at);
    life.state = to;
    if (isAudibleState(to)) life.since ??= at;
    if (to === "archived" || to === "deleted") this.#lives.delete(sessionId);
  }

  #leaveQueue(life: Life, at: number): void {
    if (life.queuedSince !== undefined) this.of(life.agentId).waitedMs += at - life.queuedSince;
    life.queuedSince = undefined;
  }

  #count(life: Life, at: number): void {
    const { agentId, state, since } = life;
    if (since === undefined) return;
    const tally = this.of(agentId);
    const passed = at - since;
    life.since = at;
    if (isAudibleState(state)) {
      tally[state.startsWith("active") ? "frontMs" : "beneathMs"] += passed;
      life.silenceMs = 0;
      return;
    }
    tally.silentMs += passed;
    life.silenceMs += passed;
    tally.longestSilenceMs = Math.max(tally.longestSilenceMs, life.silenceMs);
  }
}
