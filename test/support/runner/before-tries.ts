import { beforeEach } from "vitest";

/**
 * Prepares what the tests of a file or suite share, and change: before the first test, and again after a failed try,
 * which may have left anything behind.
 */
export function beforeTries(prepare: () => Promise<void>): void {
  let isPrepared = false;
  beforeEach(async ({ onTestFailed }) => {
    onTestFailed(() => {
      isPrepared = false;
    });
    if (!isPrepared) await prepare();
    isPrepared = true;
  });
}
