/** A bounded map. When it is full, a new entry replaces the least recently written one. */
export class RecentMap<K, V> extends Map<K, V> {
  readonly #limit: number;

  /** @param limit the maximum number of entries, at least 1 */
  constructor(limit: number) {
    super();
    this.#limit = limit;
  }

  /** Write an entry. It becomes the newest, even if its key existed. */
  override set(key: K, value: V): this {
    this.delete(key);
    super.set(key, value);
    if (this.size > this.#limit) this.delete(this.keys().next().value as K);
    return this;
  }
}
