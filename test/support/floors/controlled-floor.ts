import type { Command, CommandOf } from "../../../src/protocol/internal/command.ts";
import type { Reply } from "../../../src/protocol/internal/reply.ts";
import type { Directive, ReportPart } from "../../../src/protocol/internal/run.ts";

/** The floor that a worker asks: it accepts every report unless a test decides otherwise. */
export class ControlledFloor {
  /** All asks, including repeats. */
  readonly asked: Command[] = [];
  /** The results of the next asks, one each: a failure, or another answer. Later asks get the default answer. */
  readonly fates: (Error | Reply)[] = [];
  /** The directive that it reports for the attempt. */
  directive: Directive = { verdict: "go", answers: [] };
  /** Asks without an answer so far. */
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
    return fate ?? { ok: true, directive: this.directive };
  };

  /** Stop answering. */
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

  /** The parts of all reports in order, without repeats. */
  get parts(): ReportPart[] {
    const once = new Map(this.reports.map((report) => [report.n, report]));
    return [...once.values()].flatMap(({ parts }) => parts);
  }
}
