import type { Usage } from "../protocol/message.ts";

/**
 * What one turn may use, with all of its sub-agents. The limits of a single agent multiply with each level below it:
 * two levels of 64 concurrent calls would be 4,096 requests of one message.
 */
const LIMITS = {
  /** Tool calls in all, refused ones too: twice what one agent may make, so that delegating gains little. */
  calls: 1_024,
  /** Sub-agents that work at once: as many as one agent may call at once. Each has a conversation in memory. */
  agents: 64,
  /** Those of them that are programs: a coding agent takes some 100 MiB. */
  programs: 16,
  /** Tokens of all models, counted when a reply ends: a hundred replies to a full window of 100,000. */
  tokens: 10_000_000,
} as const;

/** Counts what the agents of one turn use. What is refused becomes the result of a tool call, which says why. */
export class TreeBudget {
  #calls = 0;
  #agents = 0;
  #programs = 0;
  #tokens = 0;

  /** Count a tool call. @returns why it is refused; undefined if it may run */
  countCall(): string | undefined {
    this.#calls += 1;
    const { calls, tokens } = LIMITS;
    if (this.#tokens >= tokens) return `The turn has used its ${count(tokens)} tokens, with its sub-agents.`;
    if (this.#calls > calls) return `The turn has made its ${count(calls)} tool calls, with its sub-agents.`;
    return undefined;
  }

  /** A sub-agent begins. @returns why it is refused; or undefined, and then `leave` must follow */
  enter(isProgram: boolean): string | undefined {
    const { agents, programs } = LIMITS;
    if (this.#agents >= agents) return `${agents} sub-agents of this turn work already. Try again when one has ended.`;
    if (isProgram && this.#programs >= programs) {
      return `${programs} programs of this turn run already. Try again when one has ended.`;
    }
    this.#agents += 1;
    if (isProgram) this.#programs += 1;
    return undefined;
  }

  leave(isProgram: boolean): void {
    this.#agents -= 1;
    if (isProgram) this.#programs -= 1;
  }

  countTokens({ total_tokens }: Usage): void {
    this.#tokens += total_tokens;
  }
}

const count = (number: number): string => number.toLocaleString("en");
