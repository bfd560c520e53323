interface Entry<V> {
  value: V;
  /** Whether it was written again since it was added or last spared: the next search for room then spares it once. */
  wasUsedAgain: boolean;
}

/**
 * A bounded map. When it is full, a new entry replaces the oldest one that was not written again lately (the algorithm
 * called second chance, or clock).
 *
 * Writing an entry again changes the entry alone. Deleting and adding its key, to keep the entries in order, would make
 * a new table every few writes, and the garbage collector keeps what such tables held (ADR 24).
 */
export class RecentMap<K, V> {
  readonly #limit: number;
  readonly #entries = new Map<K, Entry<V>>();

  /** @param limit the maximum number of entries, at least 1 */
  constructor(limit: number) {
    this.#limit = limit;
  }

  get size(): number {
    return this.#entries.size;
  }

  has(key: K): boolean {
    return this.#entries.has(key);
  }

  get(key: K): V | undefined {
    return this.#entries.get(key)?.value;
  }

  set(key: K, value: V): void {
    const known = this.#entries.get(key);
    if (known) {
      known.value = value;
      known.wasUsedAgain = true;
      return;
    }
    if (this.#entries.size >= this.#limit) this.#makeRoom();
    this.#entries.set(key, { value, wasUsedAgain: false });
  }

  /** @returns whether there was such an entry */
  delete(key: K): boolean {
    return this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
  }

  /** The present entries; they may be deleted meanwhile. */
  entries(): [K, V][] {
    return Array.from(this.#entries, ([key, { value }]) => [key, value]);
  }

  values(): V[] {
    return Array.from(this.#entries.values(), ({ value }) => value);
  }

  #makeRoom(): void {
    for (const [key, entry] of this.#entries) {
      this.#entries.delete(key);
      if (!entry.wasUsedAgain) return;
      entry.wasUsedAgain = false;
      this.#entries.set(key, entry);
    }
  }
}
