/**
 * A map for entries that come and go, in the order of their addition.
 *
 * A `Map` whose entries come and go gets a new table every few changes, and V8 links each table to the next one. Once a
 * table is old, minor garbage collections keep all tables that follow it, with what they held, until the next major
 * collection (ADR 24). The properties of an object have no such links.
 */
export class TransientMap<K extends string, V extends object> {
  readonly #entries: Record<string, V> = Object.create(null);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  has(key: K): boolean {
    return this.#entries[key] !== undefined;
  }

  get(key: K): V | undefined {
    return this.#entries[key];
  }

  set(key: K, value: V): void {
    if (!this.has(key)) this.#size += 1;
    this.#entries[key] = value;
  }

  /** @returns whether there was such an entry */
  delete(key: K): boolean {
    if (!this.has(key)) return false;
    this.#size -= 1;
    return delete this.#entries[key];
  }

  /** The present values; entries may be added and deleted meanwhile. */
  values(): V[] {
    return Object.values(this.#entries);
  }

  /** The present entries; others may be added and deleted meanwhile. */
  entries(): [K, V][] {
    return Object.entries(this.#entries) as [K, V][];
  }
}
