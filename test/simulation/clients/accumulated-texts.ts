import { must } from "../../../src/policy/arrangement-check.ts";
import type { Delta } from "../../../src/protocol/event.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { textOf } from "../services/scripts.ts";

/**
 * The texts of unfinished messages as one reader assembles them: the text when it joins, and then the deltas. Throws
 * `Broken` when a delta does not fit, or when the assembled text is not the agent's.
 */
export class AccumulatedTexts {
  readonly #texts = new Map<string, string>();
  readonly #finished = new Set<string>();
  readonly #endedRuns = new Set<string>();

  /** A new connection gets the text of unfinished messages again. */
  reconnect(): void {
    this.#texts.clear();
  }

  show({ id, content }: Message): void {
    must(!this.#finished.has(id), () => `message ${id} was shown as unfinished after its end`);
    this.#mustBeSaid(id, content);
    this.#texts.set(id, content);
  }

  add({ messageId, runId, offset, text }: Delta): void {
    must(!this.#finished.has(messageId), () => `a piece of message ${messageId} came after its end`);
    must(!this.#endedRuns.has(runId), () => `a piece of run ${runId} came after its end`);
    const before = this.#texts.get(messageId) ?? "";
    must(
      offset === before.length,
      () => `a piece of ${messageId} goes to ${offset}, its text ends at ${before.length}`,
    );
    this.#mustBeSaid(messageId, before + text);
    this.#texts.set(messageId, before + text);
  }

  /** A message is complete: the deltas are its beginning, or, if its worker was lost, more than was stored. */
  #finish({ id, role, content, status }: Message): void {
    if (role !== "assistant") return;
    this.#finished.add(id);
    const text = this.#texts.get(id) ?? "";
    this.#texts.delete(id);
    const fits = content.startsWith(text) || (status !== "success" && text.startsWith(content));
    must(fits, () => `of ${id} a reader had ${JSON.stringify(text)}, and it is ${JSON.stringify(content)}`);
  }

  /** A logged event of the session. */
  follow(type: string, data: object): void {
    if (type === "message") this.#finish(data as Message);
    else if (type === "complete") this.#endedRuns.add((data as { runId: string }).runId);
  }

  /** The assembled text of an unfinished message. */
  of(messageId: string): string | undefined {
    return this.#texts.get(messageId);
  }

  #mustBeSaid(id: string, text: string): void {
    must(textOf(id)?.startsWith(text) === true, () => `a reader of ${id} has ${JSON.stringify(text)}`);
  }
}
