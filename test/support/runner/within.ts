import { PATIENCE_MS } from "./patience.ts";

/**
 * @returns the duration of `work` in ms
 * @throws Error with `what` if it hangs, and the rejection of `work`
 */
export async function within(what: string, work: Promise<unknown>, ms = PATIENCE_MS): Promise<number> {
  const begunAt = performance.now();
  let late: NodeJS.Timeout | undefined;
  const tooLate = new Promise<never>((_, reject) => {
    late = setTimeout(() => reject(new Error(`${what} took longer than ${ms} ms`)), ms);
  });
  try {
    await Promise.race([work, tooLate]);
    return Math.round(performance.now() - begunAt);
  } finally {
    clearTimeout(late);
  }
}
