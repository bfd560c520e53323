/** A copy of an object without these keys. */
export function omit<T extends object, K extends PropertyKey>(object: T, ...keys: readonly K[]): Omit<T, K> {
  const copy: Partial<Record<PropertyKey, unknown>> = { ...object };
  for (const key of keys) delete copy[key];
  return copy as Omit<T, K>;
}
