import { vi } from "vitest";
import { parse } from "yaml";
import { accepted } from "../clients/e2e-client.ts";
import type { NodeUnderTest } from "../nodes/node-under-test.ts";
import { turn } from "../runner/virtual-clock.ts";
import { type JudgedCatalog, lengthOf } from "./judged-catalog.ts";
import type { JudgedEvent, LogJudge } from "./log-judge.ts";
import type { ToldStep } from "./told-story.ts";

/** The longest time that passes at once, in ms. */
const PASS_MS = 10_000;

/** What is said to an agent: after how many ms it answers, in words. */
function messageOf(told: ToldStep, steps: readonly ToldStep[]): string {
  const later = steps.slice(steps.indexOf(told) + 1);
  const end = later.findIndex(({ answers }) => answers === (told.as ?? told.says));
  if (end < 0) return "never";
  const ms = later.slice(0, end + 1).reduce((sum, { after }) => sum + (after === undefined ? 0 : lengthOf(after)), 0);
  return `after ${ms} ms`;
}

/** An agent that answers when the stories say so, if nothing holds its turns meanwhile. */
export function repliesIn(scripts: readonly string[]): object[] {
  const all = scripts.flatMap((script) => {
    const { steps } = parse(script) as { steps: ToldStep[] };
    return steps.filter(({ says }) => says !== undefined).map((step) => messageOf(step, steps));
  });
  return [...new Set(all)].map((message) => {
    const [ms] = /\d+/.exec(message) ?? [];
    return { match: `^${message}$`, say: [".", "."], delay: ms === undefined ? "1h" : `${ms}ms` };
  });
}

/**
 * Tells a story of `interlock prove` to a node by HTTP, on the floor of a user of its own. The test has put the clocks
 * of its process under control.
 */
export class StoryOnNode {
  /** Of the floor's log, the oldest first. */
  readonly events: JudgedEvent[] = [];
  startedAt = 0;
  /** By name: the session that was begun. */
  readonly #ids = new Map<string, string>();
  readonly #node: NodeUnderTest;
  readonly #catalog: JudgedCatalog;
  readonly #judge: LogJudge;
  readonly #userId: string;
  /** By the name of a session whose program lives: half its lease, and when its next heartbeat comes. */
  readonly #beats = new Map<string, { halfMs: number; inMs: number }>();

  constructor(node: NodeUnderTest, catalog: JudgedCatalog, judge: LogJudge) {
    this.#node = node;
    this.#catalog = catalog;
    this.#judge = judge;
    this.#userId = node.newUser("driver");
  }

  get #floor(): string {
    return `/floor/${encodeURIComponent(`u:${this.#userId}`)}`;
  }

  async play(script: string): Promise<void> {
    const { steps } = parse(script) as { steps: ToldStep[] };
    this.startedAt = Date.now();
    for (const step of steps) {
      if (step.after !== undefined) await this.#live(lengthOf(step.after));
      await this.#carryOut(step, steps);
      // A command that changes nothing: before it, everything that is due has happened.
      await accepted(this.#node.patch(`${this.#floor}/flags`, {}));
      await this.#read();
    }
    this.#judge.end(Date.now());
  }

  #idOf(name: string): string {
    return this.#ids.get(name) ?? `${this.#userId}-${name}`;
  }

  async #carryOut(step: ToldStep, steps: readonly ToldStep[]): Promise<void> {
    const { asks, says, cancels, resumes, pauses, ends, dies, set, clear, clock } = step;
    if (step.answers !== undefined) await this.#hear(step.answers);
    if (asks !== undefined) {
      const name = step.as ?? asks;
      const answer = await this.#node.post("/session/create", {
        id: this.#idOf(name),
        userId: this.#userId,
        agentId: asks,
        activate: true,
      });
      if (answer.status === 200) this.#ids.set(name, answer.body.session.id);
      const lease = this.#catalog.agents.find((agent) => agent.name === asks)?.lease;
      if (answer.status === 200 && lease !== undefined)
        this.#beats.set(name, { halfMs: lengthOf(lease) / 2, inMs: lengthOf(lease) / 2 });
    } else if (says !== undefined) {
      const name = step.as ?? says;
      const addressee = this.#ids.has(name) ? { sessionId: this.#idOf(name) } : { agentId: says, userId: this.#userId };
      const answer = await this.#node.post("/message", {
        type: "chat",
        content: messageOf(step, steps),
        ...addressee,
      });
      if (answer.status === 200) this.#ids.set(name, answer.body.sessionId);
    } else if (cancels !== undefined) {
      await accepted(this.#node.post("/message", { type: "abort", sessionId: this.#idOf(cancels) }));
    } else if (resumes !== undefined) await this.#on(resumes, "resume");
    else if (pauses !== undefined) await accepted(this.#on(pauses, "pause"));
    else if (ends !== undefined) await accepted(this.#on(ends, "archive"));
    else if (dies !== undefined) {
      await this.#beat(dies);
      this.#beats.delete(dies);
    } else if (set !== undefined) await accepted(this.#node.patch(`${this.#floor}/flags`, { [set]: true }));
    else if (clear !== undefined) await accepted(this.#node.patch(`${this.#floor}/flags`, { [clear]: false }));
    else if (clock !== undefined) {
      this.#judge.setClock();
      vi.setSystemTime(Date.parse(`${clock.replace(" ", "T")}:00Z`));
    } else if (step.disable !== undefined || step.enable !== undefined) throw new Error("tells of another catalogue");
  }

  /** The agent answers by itself, at this moment: it was told so with the message. */
  async #hear(name: string): Promise<void> {
    for (let looks = 0; looks < 100; looks++) {
      const { session } = await accepted(this.#node.get(`/session/${this.#idOf(name)}`));
      if (session.activity !== "running") return;
      await vi.advanceTimersByTimeAsync(0);
      await turn();
    }
    throw new Error(`${name} does not answer`);
  }

  #on(name: string, verb: "resume" | "pause" | "archive") {
    return this.#node.post(`/session/${this.#idOf(name)}/${verb}`);
  }

  async #beat(name: string): Promise<void> {
    await this.#node.post("/message", { type: "heartbeat", sessionId: this.#idOf(name) });
  }

  /** Let time pass, with heartbeats. */
  async #live(ms: number): Promise<void> {
    for (let left = ms; left > 0; ) {
      const next = Math.min(left, PASS_MS, ...[...this.#beats.values()].map(({ inMs }) => inMs));
      await vi.advanceTimersByTimeAsync(next);
      await turn();
      left -= next;
      for (const [name, beat] of this.#beats) {
        beat.inMs -= next;
        if (beat.inMs > 0) continue;
        beat.inMs = beat.halfMs;
        await this.#beat(name);
      }
    }
  }

  async #read(): Promise<void> {
    const answer = await this.#node.get(`${this.#floor}/log?limit=1000`);
    if (answer.status === 404) return;
    const all = (answer.body as unknown as { events: LoggedEvent[] }).events.reverse();
    const news = all.slice(this.events.length).map(({ type, sessionId, timestamp, data }) => {
      return { type, sessionId, at: Date.parse(timestamp), data };
    });
    this.events.push(...news);
    this.#judge.take(news);
  }
}

interface LoggedEvent {
  readonly type: string;
  readonly sessionId?: string;
  readonly timestamp: string;
  readonly data: unknown;
}
