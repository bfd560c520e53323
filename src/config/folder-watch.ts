import { type FSWatcher, watch } from "node:fs";
import { stat } from "node:fs/promises";

export interface FolderWatchOptions {
  folder: string;
  /** Called with the event that ends the watch, and when the folder was replaced. */
  onEvent: () => void;
  /** Called with each new reason why the folder cannot be watched. */
  onFailure: (error: Error) => void;
  /** Default: `watch` of `node:fs`. */
  begin?: typeof watch | undefined;
}

/** Watches the folder at a path, each time for one event. */
export class FolderWatch {
  readonly #options: FolderWatchOptions;
  #watcher: FSWatcher | undefined;
  /** The device and inode of the folder that was watched last. */
  #identity: string | undefined;
  #failure: string | undefined;
  #mending = Promise.resolve();
  #isClosed = false;

  constructor(options: FolderWatchOptions) {
    this.#options = options;
  }

  /** Begin the watch again, after an event or a failure, and if the folder was replaced. */
  mend(): Promise<void> {
    this.#mending = this.#mending.then(() => this.#mend());
    return this.#mending;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#end();
    await this.#mending;
  }

  async #mend(): Promise<void> {
    const { folder, onEvent, begin = watch } = this.#options;
    const identity = await stat(folder).then(
      ({ dev, ino }) => `${dev}:${ino}`,
      () => undefined,
    );
    if (this.#isClosed || (this.#watcher && identity === this.#identity)) return;
    this.#end();
    const isReplaced = identity !== this.#identity;
    this.#identity = identity;
    if (identity === undefined) return;
    try {
      const watcher = begin(folder, { persistent: false }, () => {
        this.#end();
        onEvent();
      });
      this.#watcher = watcher.on("error", (error) => this.#fail(error));
      this.#failure = undefined;
      // Detect changes from before the watch.
      if (isReplaced) onEvent();
    } catch (error) {
      this.#fail(error as Error);
    }
  }

  #end(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #fail(error: Error): void {
    this.#end();
    this.#identity = undefined;
    if (error.message === this.#failure) return;
    this.#failure = error.message;
    this.#options.onFailure(error);
  }
}
