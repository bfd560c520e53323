import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Agent, Part } from "../../../src/agents/agent.ts";
import { AppError } from "../../../src/protocol/errors.ts";
import { Usage } from "../../../src/protocol/message.ts";
import { createRunStage, play, playToFailure, textOf, turnOf } from "../../support/agents/run-stage.ts";

/** The text of an agent under test, one part each. */
export const SPOKEN = ["One, ", "two, ", "three."];

/** An agent, and the messages that make it do what the contract checks. */
export interface AgentSubject {
  readonly agent: Agent;
  /** Whether its provider sends plain text, whose pieces have no ends and without token counts. Default: false. */
  readonly isPlain?: boolean;
  /** A message that it answers with `SPOKEN`, and with some usage unless it is plain. */
  speaks(): string;
  /** A message that it answers with the first of `SPOKEN`, and then with nothing until it is aborted. */
  stalls(): string;
  /** A message that its provider refuses with `provider_rate_limited`. */
  fails(): string;
  /** Resolves when everything that its runs used outside, such as connections, is released. */
  released(): Promise<unknown>;
  close(): Promise<void>;
}

const NOTHING = { sleepers: 0, listeners: 0 };

/** The contract of the port, for every adapter. */
export function agentContract(name: string, make: () => Promise<AgentSubject>): void {
  describe(`agent: ${name}`, () => {
    let subject: AgentSubject;
    beforeEach(async () => {
      subject = await make();
    });
    afterEach(() => subject.close());

    /** A run that has yielded its first text and now stalls. */
    async function stall() {
      const stage = createRunStage({ time: "stands" });
      const parts = subject.agent.run(turnOf(subject.stalls()), stage.control)[Symbol.asyncIterator]();
      let first = await parts.next();
      // An agent's status parts come before its text.
      while (["start", "log", "provider-session"].includes(first.value?.type)) first = await parts.next();
      expect(first.value).toMatchObject({ type: "text", text: SPOKEN[0] });
      return { stage, parts };
    }

    test("an agent yields its texts one by one as the session's own agent, counts its tokens once if it counts them, and leaves no timer and no listener behind", async () => {
      const stage = createRunStage();
      const parts = await play(subject.agent, turnOf(subject.speaks()), stage);
      const texts = parts.flatMap((part) => (part.type === "text" ? [part.text] : []));
      expect(subject.isPlain ? texts.join("") : texts).toEqual(subject.isPlain ? SPOKEN.join("") : SPOKEN);
      expect(parts.filter((part) => part.agent)).toEqual([]);
      const usage = parts.flatMap((part) => (part.type === "usage" ? [Usage.parse(part.usage)] : []));
      expect(usage).toHaveLength(subject.isPlain ? 0 : 1);
      for (const { total_tokens } of usage) expect(total_tokens).toBeGreaterThan(0);
      await subject.released();
      expect(stage.leftovers()).toEqual(NOTHING);
    });

    test("an agent stays at its position while its parts are not pulled", async () => {
      const stage = createRunStage();
      const parts = subject.agent.run(turnOf(subject.speaks()), stage.control)[Symbol.asyncIterator]();
      const heard: Part[] = [(await parts.next()).value];
      for (let turns = 0; turns < 20; turns += 1) await new Promise(setImmediate);
      for (let next = await parts.next(); !next.done; next = await parts.next()) heard.push(next.value);
      expect(textOf(heard)).toBe(SPOKEN.join(""));
    });

    test("an agent runs two turns concurrently without mixing them", async () => {
      const [one, two] = await Promise.all([
        play(subject.agent, turnOf(subject.speaks())),
        play(subject.agent, turnOf(subject.speaks())),
      ]);
      expect([textOf(one), textOf(two)]).toEqual([SPOKEN.join(""), SPOKEN.join("")]);
    });

    test("an agent produces nothing when it is aborted before it starts", async () => {
      const stage = createRunStage();
      stage.abort();
      const parts = subject.agent.run(turnOf(subject.speaks()), stage.control)[Symbol.asyncIterator]();
      const first = await parts.next().catch(() => ({ done: true }));
      expect(first.done).toBe(true);
    });

    test("an agent ends when it is aborted while it produces no output, and answers the next turn", async () => {
      const { stage, parts } = await stall();
      const next = parts.next().catch(() => ({ done: true }));
      stage.abort();
      expect((await next).done).toBe(true);
      expect(textOf(await play(subject.agent, turnOf(subject.speaks())))).toBe(SPOKEN.join(""));
      await subject.released();
      expect(stage.leftovers()).toEqual(NOTHING);
    });

    test("an agent ends when it is aborted while its parts are not pulled", async () => {
      const { stage, parts } = await stall();
      stage.abort();
      await subject.released();
      expect((await parts.next().catch(() => ({ done: true }))).done).toBe(true);
      expect(stage.leftovers()).toEqual(NOTHING);
    });

    test("an agent releases everything when the caller returns early", async () => {
      const { stage, parts } = await stall();
      expect((await parts.return?.())?.done).toBe(true);
      await subject.released();
      expect(stage.leftovers()).toEqual(NOTHING);
    });

    test("an agent throws an AppError if the user should learn of a failure, and answers the next turn", async () => {
      const stage = createRunStage();
      const { failure } = await playToFailure(subject.agent, turnOf(subject.fails()), stage);
      expect(failure).toBeInstanceOf(AppError);
      expect((failure as AppError).code).toBe("provider_rate_limited");
      expect(stage.leftovers()).toEqual(NOTHING);
      expect(textOf(await play(subject.agent, turnOf(subject.speaks())))).toBe(SPOKEN.join(""));
    });
  });
}
