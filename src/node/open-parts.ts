import type { Logger } from "../shared/ports/logger.ts";

type Close = () => unknown;

/** The parts of a node that are open or at work, each with what closes it. */
export class OpenParts {
  readonly #log: Logger;
  readonly #stopping: AbortSignal;
  /** Each is a group of parts that close side by side. */
  readonly #groups: [name: string, close: Close][][] = [];

  /** @param stopping aborted when the node is to stop, which a start notices with its next part */
  constructor(log: Logger, stopping: AbortSignal) {
    this.#log = log;
    this.#stopping = stopping;
  }

  /** @throws the reason of the signal if the node is to stop; the part is closed with the others */
  add<T>(name: string, part: T, close: (part: T) => unknown): T {
    this.addTogether({ [name]: () => close(part) });
    return part;
  }

  addTogether(parts: Readonly<Record<string, Close>>): void {
    this.#groups.push(Object.entries(parts));
    this.throwIfStopping();
  }

  throwIfStopping(): void {
    this.#stopping.throwIfAborted();
  }

  /**
   * Close all parts, the newest first. If one cannot be closed, the log says so, and the others are closed.
   * @throws the first failure
   */
  async close(): Promise<void> {
    const failures: unknown[] = [];
    for (const group of this.#groups.splice(0).reverse()) {
      await Promise.all(
        group.map(async ([part, close]) => {
          try {
            await close();
          } catch (error) {
            this.#log.error({ err: error, part }, "a part of the node could not be closed");
            failures.push(error);
          }
        }),
      );
    }
    if (failures.length > 0) throw failures[0];
  }
}

/** The error that made a step fail, if closing what the step had opened failed, too. That failure is logged. */
export function firstError(error: unknown, log: Logger): unknown {
  if (!(error instanceof SuppressedError)) return error;
  log.error({ err: error.error }, "a part of the node could not be closed");
  return firstError(error.suppressed, log);
}
