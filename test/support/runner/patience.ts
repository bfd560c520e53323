/**
 * How long a test waits for what has to happen, in ms. It only ends what hangs, with words of its own before the test's
 * timeout: what is slow on a busy machine is no failure.
 */
export const PATIENCE_MS = 45_000;
