import { type AgentEntry, acceptsTurns, type Catalog, findAgent } from "../config/catalog/catalog.ts";
import type { RoutingRow, SentenceMatch } from "../config/catalog/routing.ts";
import type { AgentId, SessionId } from "../protocol/ids.ts";
import type { Usage } from "../protocol/message.ts";
import type { PassedWhy, Routed } from "../protocol/routed.ts";

/** Who says the sentence, and where it is to be heard. */
export interface Speaker {
  readonly workspaceId?: string | undefined;
  /** Only operators may start sessions of critical agents. */
  readonly isOperator: boolean;
}

/** What the sentence alone does not decide. */
export type RouteQuestion = Extract<RoutingRow, { kind: "continues" | "ask" }>;

/** What a router agent used for its answer. */
interface Spent {
  usage?: Usage | undefined;
}

/** The session that goes on, the agent that was named, or why there is none. */
export type RouteAnswer =
  | { sessionId: SessionId; agentId: AgentId }
  | ({ named: string } & Spent)
  | ({ why: PassedWhy } & Spent)
  | undefined;

/** The choice; `sessionId`: the session that goes on. */
export interface Route {
  readonly routed: Omit<Routed, "took" | "asked">;
  readonly sessionId?: SessionId | undefined;
}

const MAX_ALTERNATIVES = 10;
/** Rows that fit and did not decide, at most so many of which are told. */
const MAX_PASSED = 10;

/**
 * Go down the rows of `routing`: the first that fits decides, and without one the default agent hears the sentence.
 * Pure: what a row asks for is yielded, and the caller that steps the generator answers. Rows whose agent this speaker
 * may not use are passed over.
 */
export function* route(
  catalog: Catalog,
  sentence: string,
  speaker: Speaker,
): Generator<RouteQuestion, Route, RouteAnswer> {
  const walk = new Walk(catalog, sentence, speaker);
  for (const [index, row] of catalog.routing.rows.entries()) {
    const isQuestion = row.kind === "continues" || (row.kind === "ask" && walk.isUsable(row.agent));
    const outcome = walk.decide(index, row, isQuestion ? yield row : undefined);
    if (outcome) return outcome;
  }
  return walk.fallBack();
}

/** The agents that a sentence without an agent may reach: those of the rows, and the default agent. */
export function agentsThatHear({ routing, defaultAgentId }: Catalog): AgentId[] {
  const named = routing.rows.flatMap((row) => (row.kind === "ask" ? row.among : "agent" in row ? [row.agent] : []));
  return [...new Set([...named, defaultAgentId])];
}

/** One sentence on its way down the rows. */
class Walk {
  readonly #catalog: Catalog;
  readonly #speaker: Speaker;
  readonly #match: SentenceMatch;
  readonly #passed: { row: number; why: PassedWhy }[] = [];

  constructor(catalog: Catalog, sentence: string, speaker: Speaker) {
    this.#catalog = catalog;
    this.#speaker = speaker;
    this.#match = catalog.routing.match(sentence);
  }

  isUsable(name: string): boolean {
    return this.#usable(name) !== undefined;
  }

  /** What a row decides; undefined: the next row is tried. */
  decide(index: number, row: RoutingRow, answer: RouteAnswer): Route | undefined {
    switch (row.kind) {
      case "ignore":
        return this.#match.byRow.has(index) ? this.#choose(index, row, undefined) : undefined;
      case "says":
        return this.#match.byRow.has(index) ? this.#give(index, row, row.agent) : undefined;
      case "agent":
        return this.#give(index, row, row.agent);
      case "continues":
        return answer && "sessionId" in answer ? this.#choose(index, row, answer.agentId, answer.sessionId) : undefined;
      case "ask":
        return this.#takeAnswer(index, row, answer);
    }
  }

  /** No row decided. */
  fallBack(): Route {
    return { routed: { agent: this.#catalog.defaultAgentId, by: "default", alternatives: [], ...this.#told() } };
  }

  #takeAnswer(index: number, row: RoutingRow & { kind: "ask" }, answer: RouteAnswer): Route | undefined {
    if (!answer || "sessionId" in answer) return this.#pass(index, "not_usable");
    if ("why" in answer) return this.#pass(index, answer.why);
    const named = row.among.find((name) => name === answer.named);
    return named === undefined ? this.#pass(index, "unknown") : this.#give(index, row, named);
  }

  #give(index: number, row: RoutingRow, name: AgentId): Route | undefined {
    const agent = this.#usable(name);
    return agent ? this.#choose(index, row, agent.id) : this.#pass(index, "not_usable");
  }

  #pass(index: number, why: PassedWhy): undefined {
    this.#passed.push({ row: index + 1, why });
  }

  #choose(index: number, row: RoutingRow, agent: AgentId | undefined, sessionId?: SessionId): Route {
    const pattern = agent === undefined ? undefined : this.#match.byRow.get(index);
    const groups = pattern ? this.#match.groupsOf(pattern) : {};
    return {
      routed: {
        ...(agent === undefined ? { ignored: true } : { agent }),
        by: row.kind === "ignore" ? "says" : row.kind,
        row: index + 1,
        alternatives: this.#alternatives(index, agent),
        ...this.#told(),
        ...(Object.keys(groups).length > 0 && { groups }),
      },
      ...(sessionId !== undefined && { sessionId }),
    };
  }

  /** The agents of later rows whose patterns fit. A row that takes every sentence says nothing about this one. */
  #alternatives(index: number, chosen: AgentId | undefined): AgentId[] {
    const found = new Set<AgentId>();
    for (const [at, row] of this.#catalog.routing.rows.entries()) {
      const fits = at > index && row.kind === "says" && this.#match.byRow.has(at);
      const agent = fits ? this.#usable(row.agent)?.id : undefined;
      if (agent !== undefined && agent !== chosen) found.add(agent);
    }
    return [...found].slice(0, MAX_ALTERNATIVES);
  }

  #told() {
    return this.#passed.length > 0 ? { passed: this.#passed.slice(0, MAX_PASSED) } : {};
  }

  /** The agent, if this speaker may give it a sentence. */
  #usable(name: string): AgentEntry | undefined {
    const { workspaceId, isOperator } = this.#speaker;
    const agent = findAgent(this.#catalog, name, workspaceId);
    return agent?.enabled && acceptsTurns(agent) && (isOperator || !agent.critical) ? agent : undefined;
  }
}
