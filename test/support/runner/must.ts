/** A promise that was not kept. */
export class Broken extends Error {}

export function must(holds: boolean, otherwise: () => string): asserts holds {
  if (!holds) throw new Broken(otherwise());
}
