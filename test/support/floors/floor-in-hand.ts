import type { Command, CommandOf } from "../../../src/protocol/internal/command.ts";
import type { Reply } from "../../../src/protocol/internal/reply.ts";
import type { ReportPart, Standing } from "../../../src/protocol/internal/run.ts";

/** What a worker speaks to: a floor that takes every report unless it is told otherwise. */
export class FloorInHand {
  /** All that was asked, repeats too. */
  readonly asked: Command[] = [];
  /** What becomes of the next asks, one each: a failure, or another answer. Those beyond them are answered as usual. */
  readonly fates: (Error | Reply)[] = [];
  /** Its word on the attempt. */
  standing: Standing = { standing: "go", answers: [] };
  /** Asks that were not answered yet. */
  underWay = 0;
  mostUnderWay = 0;
  #gate: PromiseWithResolvers<void> | undefined;

  readonly ask = async (command: Command): Promise<Reply> => {
    this.asked.push(command);
    this.underWay += 1;
    this.mostUnderWay = Math.max(this.mostUnderWay, this.underWay);
    await this.#gate?.promise;
    this.underWay -= 1;
    const fate = this.fates.shift();
    if (fate instanceof Error) throw fate;
    return fate ?? { ok: true, standing: this.standing };
  };

  /** From now on nothing is answered. */
  hold(): void {
    this.#gate ??= Promise.withResolvers();
  }

  release(): void {
    this.#gate?.resolve();
    this.#gate = undefined;
  }

  get reports(): CommandOf<"run.report">[] {
    return this.asked.filter((command) => command.type === "run.report");
  }

  get stills(): CommandOf<"run.still">[] {
    return this.asked.filter((command) => command.type === "run.still");
  }

  /** The parts of all reports, in order, each once. */
  get parts(): ReportPart[] {
    const once = new Map(this.reports.map((report) => [report.n, report]));
    return [...once.values()].flatMap(({ parts }) => parts);
  }
}
