import type { Part } from "../agents/agent.ts";
import { AppError } from "../protocol/errors.ts";
import type { RunOutcome } from "../protocol/internal/run.ts";
import { addUsage, type Usage } from "../protocol/message.ts";
import { cleanText, shortened } from "../shared/text.ts";
import type { SummaryWork } from "./summary-reader.ts";

/** The longest summary, in UTF-16 units; more of it is cut. */
const MAX_SUMMARY_UNITS = 8_192;

/** A summary from its agent's text and tokens. Other parts are left out. */
export class SummaryText {
  readonly #work: SummaryWork;
  #text = "";
  usage: Usage | undefined;

  constructor(work: SummaryWork) {
    this.#work = work;
  }

  add(part: Part): void {
    if (part.type === "usage") this.usage = this.usage ? addUsage(this.usage, part.usage) : part.usage;
    else if (part.type === "text") this.#text += part.text;
  }

  /** Whether further text would be cut. */
  get isFull(): boolean {
    return this.#text.length > MAX_SUMMARY_UNITS * 2;
  }

  /** @throws AppError `provider_unreachable` if there is no text */
  finish(): RunOutcome {
    const whole = cleanText(this.#text.trim());
    if (whole === "") throw new AppError("provider_unreachable", "The model wrote no summary.");
    const { upTo, hasMore } = this.#work;
    return { kind: "written", text: shortened(whole, MAX_SUMMARY_UNITS), upTo, hasMore };
  }
}
