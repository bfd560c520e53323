import { acceptsTurns, type Catalog } from "../config/catalog/catalog.ts";
import { type AgentId, type FloorId, type SessionId, userOf } from "../protocol/ids.ts";
import type { Routed } from "../protocol/routed.ts";
import type { Session } from "../protocol/session.ts";
import { isAudibleState } from "../protocol/written-state.ts";
import { type RouteAnswer, type RouteQuestion, route } from "../routing/route.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { Caller } from "./access/caller.ts";
import type { VisibleSessions } from "./access/visible-sessions.ts";
import type { Target } from "./chat-commands.ts";
import type { RouterQuestions } from "./router-questions.ts";

export interface SentencesOptions {
  catalog: () => Catalog;
  routers: Pick<RouterQuestions, "ask">;
  visibleTo: (caller: Caller) => VisibleSessions;
  clock: Clock;
  /** Measures elapsed time, and never jumps. */
  stopwatch: Clock;
}

/** Sessions among which the one that spoke last is looked for. */
const RECENT_SESSIONS = 20;
/** Its messages among which the last of the user and of the agent are looked for. */
const RECENT_MESSAGES = 16;

type NewTarget = Target & { creates: NonNullable<Target["creates"]> };

/** A sentence, and who says it where. */
interface Heard {
  caller: Caller;
  sentence: string;
  floorId: FloorId;
  workspaceId: string | undefined;
  /** Whether it may go on in another session. */
  mayContinue: boolean;
}

/** Who hears a sentence; `continued`: the session that it goes on in. Without one it begins another. */
export interface Choice {
  routed: Routed;
  continued?: SessionId | undefined;
}

/** Finds the agent that hears a sentence, by the rows of the catalogue's `routing` (src/routing/route.ts). */
export class Sentences {
  readonly #options: SentencesOptions;

  constructor(options: SentencesOptions) {
    this.#options = options;
  }

  /**
   * What becomes of a sentence that names neither an agent nor a session.
   * @param target the session that it would create with the default agent
   * @param mayContinue whether it may go on in another session. Default: true
   */
  async route(caller: Caller, sentence: string, target: NewTarget, mayContinue = true): Promise<Target> {
    if (this.#options.catalog().routing.rows.length === 0 || sentence.trim() === "") return target;
    const { sessionId, floorId, creates } = target;
    const { workspaceId } = creates;
    const { routed, continued } = await this.#choose({ caller, sentence, floorId, workspaceId, mayContinue });
    if (routed.ignored) return { sessionId, floorId, routed };
    if (continued !== undefined) return { ...(await this.#options.visibleTo(caller).locate(continued)), routed };
    return { sessionId, floorId, creates: { ...creates, agentId: routed.agent }, routed };
  }

  /** Which agent would hear a sentence on a floor now. */
  async choose(caller: Caller, sentence: string, where: Pick<Heard, "floorId" | "workspaceId">): Promise<Choice> {
    return await this.#choose({ caller, sentence, ...where, mayContinue: true });
  }

  async #choose(heard: Heard): Promise<Choice> {
    const { catalog: current, stopwatch } = this.#options;
    const { caller, sentence, workspaceId } = heard;
    const begunAt = stopwatch.now();
    const catalog = current();
    const steps = route(catalog, sentence, { workspaceId, isOperator: caller.isOperator });
    const asked: NonNullable<Routed["asked"]> = [];
    let step = steps.next();
    while (!step.done) {
      const question = step.value;
      const answer = await this.#answer(question, heard, catalog);
      if (question.kind === "ask" && answer && "usage" in answer && answer.usage)
        asked.push({ agent: question.agent, usage: answer.usage });
      step = steps.next(answer);
    }
    const { routed, sessionId } = step.value;
    const continued = sessionId ?? (await this.#findHeard(heard, routed.agent));
    const took = Math.round(stopwatch.now() - begunAt);
    return { routed: { ...routed, ...(asked.length > 0 && { asked }), took }, continued };
  }

  async #answer(question: RouteQuestion, heard: Heard, catalog: Catalog): Promise<RouteAnswer> {
    if (question.kind === "ask")
      return await this.#options.routers.ask(question, catalog, heard.sentence, heard.workspaceId);
    return heard.mayContinue ? await this.#findContinued(heard, catalog, question.withinMs) : undefined;
  }

  /** The agent's session that is heard on the floor: a new one would have to take the floor from it. */
  async #findHeard(heard: Heard, agentId: AgentId | undefined): Promise<SessionId | undefined> {
    if (!heard.mayContinue || agentId === undefined) return undefined;
    return (await this.#findRecent(heard, ({ state }) => isAudibleState(state), agentId))?.id;
  }

  /** The first of the sessions on the floor and in the workspace that fits, the newest activity first. */
  async #findRecent(
    { caller, floorId, workspaceId }: Heard,
    fits: (session: Session) => boolean,
    agentId?: AgentId,
  ): Promise<Session | undefined> {
    const userId = userOf(floorId);
    if (userId === undefined) return undefined;
    const query = { page: 0, pageSize: RECENT_SESSIONS, userId, agentId, includeArchived: false };
    const { sessions } = await this.#options.visibleTo(caller).list(query);
    return sessions.find((each) => each.floorId === floorId && each.workspaceId === workspaceId && fits(each));
  }

  /** The session that spoke last on the floor, if it asked, or was spoken to, within this time. */
  async #findContinued(heard: Heard, catalog: Catalog, withinMs: number): Promise<RouteAnswer> {
    const last = await this.#findRecent(heard, ({ agentId, messageCount }) => {
      const agent = catalog.agents.get(agentId);
      return messageCount > 0 && agent !== undefined && acceptsTurns(agent);
    });
    if (!last) return undefined;
    const sessions = this.#options.visibleTo(heard.caller);
    const since = this.#options.clock.now() - withinMs;
    return (await this.#isOpen(sessions, last.id, since)) ? { sessionId: last.id, agentId: last.agentId } : undefined;
  }

  /** Whether the user spoke to the session, or it asked something, after this instant. */
  async #isOpen(sessions: VisibleSessions, id: SessionId, since: number): Promise<boolean> {
    const { session, messages } = await sessions.view(id, RECENT_MESSAGES);
    if (session.activity === "waiting") return session.lastActivityAt >= since;
    const heard = messages.findLast(({ role }) => role === "user");
    const said = messages.findLast(({ role, agent }) => role === "assistant" && agent?.kind !== "sub");
    if (heard && heard.createdAt >= since) return true;
    return said !== undefined && (said.finishedAt ?? said.createdAt) >= since && isQuestion(said.content);
  }
}

/** Whether a reply ends with a question, in the scripts that mark one. */
const isQuestion = (text: string): boolean => /[?？؟]["'”’»」』)）\s]*$/u.test(text);
