import type { Agent, Part, RunControl, SummaryRequest, Turn } from "../../../src/agents/agent.ts";
import type { AgentId } from "../../../src/protocol/ids.ts";
import type { VirtualClock } from "../runner/virtual-clock.ts";

type Step = { part: Part } | { end: true } | { failure: unknown };

/**
 * One run of a puppet, of a turn unless a test says otherwise. It yields what the test gives it, when the driver asks
 * for the next part.
 */
export class PuppetRun<Request = Turn> {
  readonly turn: Request;
  readonly control: RunControl;
  /** How often the driver asked for the next part. */
  pulls = 0;
  /** Whether it has cleaned up. */
  isOver = false;
  /** Whether it ignores an abort. */
  isStubborn = false;
  readonly #steps: Step[] = [];
  #wake: (() => void) | undefined;

  constructor(turn: Request, control: RunControl) {
    this.turn = turn;
    this.control = control;
    control.signal.addEventListener("abort", () => this.#wake?.());
  }

  say(...texts: string[]): void {
    for (const text of texts) this.do({ type: "text", text });
  }

  do(...parts: Part[]): void {
    for (const part of parts) this.#add({ part });
  }

  end(): void {
    this.#add({ end: true });
  }

  fail(failure: unknown): void {
    this.#add({ failure });
  }

  async *play(): AsyncGenerator<Part> {
    try {
      for (;;) {
        this.pulls += 1;
        const step = await this.#next();
        if ("end" in step) return;
        if ("failure" in step) throw step.failure;
        yield step.part;
      }
    } finally {
      this.isOver = true;
    }
  }

  async #next(): Promise<Step> {
    for (;;) {
      if (this.control.signal.aborted && !this.isStubborn) return { end: true };
      const step = this.#steps.shift();
      if (step) return step;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #add(step: Step): void {
    this.#steps.push(step);
    this.#wake?.();
  }
}

/** A run says this and ends, and what follows at once has happened. */
export async function finish(
  { clock }: { readonly clock: VirtualClock },
  run: PuppetRun<unknown>,
  ...words: readonly string[]
): Promise<void> {
  run.say(...words);
  run.end();
  await clock.advance(0);
}

/** An agent whose output the test controls. */
export class Puppet implements Agent {
  readonly id: AgentId;
  yields: Agent["yields"] = "hold";
  restartable = true;
  /** All runs, in the order in which they started. */
  readonly runs: PuppetRun[] = [];
  /** The runs that write summaries, likewise. */
  readonly summaries: PuppetRun<SummaryRequest>[] = [];

  constructor(id = "music") {
    this.id = id as AgentId;
  }

  /** The run that started last. */
  get last(): PuppetRun {
    return this.runs.at(-1)!;
  }

  run(turn: Turn, control: RunControl): AsyncGenerator<Part> {
    const run = new PuppetRun(turn, control);
    this.runs.push(run);
    return run.play();
  }
  summarize(request: SummaryRequest, control: RunControl): AsyncGenerator<Part> {
    const run = new PuppetRun(request, control);
    this.summaries.push(run);
    return run.play();
  }
}
