import { speakerOf } from "../../protocol/message.ts";
import type { Part } from "../agent.ts";
import type { Redactor } from "./redactor.ts";

type TextPart = Extract<Part, { type: "text" | "reasoning" }>;

/**
 * The parts of one run without the values of secrets, in their order. The end of a text waits for the next piece while
 * it may be the beginning of a secret, at most until its message ends. If the secret goes on in the next message of the
 * same speaker, its other part is found there, so that at least half of it is hidden.
 */
export class RedactedParts {
  readonly #redactor: Redactor;
  /** The ends of texts that wait, by kind and speaker; each is shorter than a secret. */
  readonly #waiting = new Map<string, TextPart>();
  /** The beginnings of secrets in which messages ended, by kind and speaker. */
  readonly #begun = new Map<string, string>();

  constructor(redactor: Redactor) {
    this.#redactor = redactor;
  }

  redact(part: Part): Part[] {
    const { text } = this.#redactor;
    switch (part.type) {
      case "text":
      case "reasoning":
        return this.#redactText(part);
      case "message": {
        const output = part.output === undefined ? {} : { output: text(part.output) };
        return [...this.#endMessage(part), { ...part, content: text(part.content), ...output }];
      }
      case "tool-call":
        return [...this.#endMessage(part), { ...part, call: this.#redactor.value(part.call) }];
      case "tool-result": {
        const { toolCallId, toolName, content } = part;
        const clean = { toolCallId: text(toolCallId), toolName: text(toolName), content: text(content) };
        return [...this.#endMessage(part), { ...part, ...clean }];
      }
      case "data":
        return [{ ...part, name: text(part.name), data: this.#redactor.value(part.data) }];
      case "log":
        return [{ ...part, text: text(part.text) }];
      default:
        return [part];
    }
  }

  /** The texts that wait. Call it where messages end without a part. */
  end(): Part[] {
    return this.#release(() => true);
  }

  #redactText(part: TextPart): Part[] {
    const key = `${part.type}\n${part.agent ? speakerOf(part.agent) : ""}`;
    if (part.text === "") return [];
    let text = (this.#waiting.get(key)?.text ?? "") + part.text;
    const begun = this.#begun.get(key);
    if (begun !== undefined) {
      const continued = this.#redactor.continued(begun, text);
      if (continued === undefined) {
        this.#waiting.set(key, { ...part, text });
        return [];
      }
      this.#begun.delete(key);
      text = continued;
    }
    const { clean, rest } = this.#redactor.split(text);
    if (rest === "") this.#waiting.delete(key);
    else this.#waiting.set(key, { ...part, text: rest });
    return clean === "" ? [] : [{ ...part, text: clean }];
  }

  /** Such a part ends the message of its speaker, and a result those of the sub-agents of its call. */
  #endMessage(part: Part): Part[] {
    const speaker = part.agent && speakerOf(part.agent);
    const callId = part.type === "tool-result" ? part.toolCallId : undefined;
    return this.#release(
      ({ agent }) =>
        (agent && speakerOf(agent)) === speaker || (callId !== undefined && agent?.calls?.includes(callId) === true),
    );
  }

  #release(isOver: (waiting: TextPart) => boolean): Part[] {
    const over = [...this.#waiting].filter(([, waiting]) => isOver(waiting));
    return over.map(([key, waiting]) => {
      const before = this.#begun.get(key) ?? "";
      this.#waiting.delete(key);
      this.#begun.set(key, before + waiting.text);
      // If a secret began in an earlier part, its middle and its end are replaced by its name too.
      const text = before === "" ? this.#redactor.end(waiting.text) : this.#redactor.middle(before, waiting.text);
      return { ...waiting, text };
    });
  }
}
