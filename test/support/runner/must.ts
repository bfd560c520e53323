/** A condition that must hold was violated. */
export class Broken extends Error {}

export function must(holds: boolean, otherwise: () => string): asserts holds {
  if (!holds) throw new Broken(otherwise());
}
