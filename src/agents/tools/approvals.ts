import type { Approvals, Confirmation, RunControl, Verdict } from "../agent.ts";

/**
 * The user's approvals in one run, including its sub-agents. Concurrent calls of one tool ask one after the other, so
 * that "always" also answers those that wait.
 */
export class RunApprovals implements Approvals {
  readonly #approved: Set<string>;
  readonly #queues = new Map<string, Promise<unknown>>();

  /** @param approved names of tools that the user approved for the rest of the session */
  constructor(approved: readonly string[]) {
    this.#approved = new Set(approved);
  }

  has(name: string): boolean {
    return this.#approved.has(name);
  }

  async askUser(confirmation: Confirmation, control: Pick<RunControl, "askUser" | "signal">): Promise<Verdict> {
    const name = nameOf(confirmation);
    const before = this.#queues.get(name) ?? Promise.resolve();
    const verdict = before.then(() => this.#askUserNow(confirmation, control));
    this.#queues.set(
      name,
      verdict.catch(() => {}),
    );
    return await verdict;
  }

  async #askUserNow(confirmation: Confirmation, control: Pick<RunControl, "askUser" | "signal">): Promise<Verdict> {
    const name = nameOf(confirmation);
    if (this.#approved.has(name)) return { isApproved: true };
    control.signal.throwIfAborted();
    const answer = await control.askUser({ kind: "confirmation", ...confirmation });
    if (answer.kind !== "confirmation") throw new Error(`a confirmation was answered with a ${answer.kind}`);
    if (answer.verdict === "approve_always") this.#approved.add(name);
    if (answer.verdict === "reject") return { isApproved: false, reason: answer.reason };
    return { isApproved: true, choice: answer.choice };
  }
}

/** What `approve_always` approves. */
const nameOf = ({ approves, toolCall }: Confirmation): string => approves ?? toolCall.function.name;
