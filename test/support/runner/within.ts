/**
 * @returns the duration of `work` in ms
 * @throws Error with `what` if it takes longer than `ms`, and the rejection of `work`
 */
export async function within(ms: number, what: string, work: Promise<unknown>): Promise<number> {
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
