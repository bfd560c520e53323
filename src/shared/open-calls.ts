/** Calls under way that their callers may cancel, by the id that the caller gave to each. */
export class OpenCalls {
  /** Not a `Map`, because calls come and go (ADR 24). */
  readonly #calls: Record<string, (() => void)[]> = Object.create(null);

  /**
   * @param scope who chose the id: ids of different scopes are different
   * @param cancel called at most once
   * @returns a function that removes the call, because it has ended
   */
  add(scope: string, id: string | number, cancel: () => void): () => void {
    const key = keyOf(scope, id);
    this.#calls[key] = [...(this.#calls[key] ?? []), cancel];
    return () => {
      const rest = this.#calls[key]?.filter((each) => each !== cancel) ?? [];
      if (rest.length > 0) this.#calls[key] = rest;
      else delete this.#calls[key];
    };
  }

  /**
   * Cancel a call. Does nothing if there is none, or if two calls have the id, because the id does not tell them apart.
   * @returns whether there is a call with that id
   */
  cancel(scope: string, id: string | number): boolean {
    const key = keyOf(scope, id);
    const [cancel, other] = this.#calls[key] ?? [];
    if (!cancel || other) return other !== undefined;
    delete this.#calls[key];
    cancel();
    return true;
  }
}

/** Of the types too: 1 and "1" are different ids. */
const keyOf = (scope: string, id: string | number): string => JSON.stringify([scope, id]);
