/** Whether the server wants a sign-in. Requests that it refused wait for it (`signInAgain` of the client). */
export class SignInDemand {
  readonly #watchers = new Set<() => void>();
  #waiting: PromiseWithResolvers<void> | undefined;
  #wasIn = false;
  #view: SignInState = { isWanted: false, endedAt: undefined };

  get view(): SignInState {
    return this.#view;
  }

  readonly subscribe = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  };

  /** Resolves when the user has signed in. */
  readonly ask = (): Promise<void> => {
    this.#waiting ??= Promise.withResolvers();
    this.#show({ isWanted: true, endedAt: this.#wasIn ? Date.now() : undefined });
    return this.#waiting.promise;
  };

  readonly signedIn = (): void => {
    this.#waiting?.resolve();
    this.#waiting = undefined;
    this.#show({ isWanted: false, endedAt: undefined });
  };

  /** A stream is open: a later 401 is the end of a sign-in, and not the first question. */
  readonly noteOpen = (): void => {
    this.#wasIn = true;
  };

  #show(view: SignInState): void {
    this.#view = view;
    for (const watcher of [...this.#watchers]) watcher();
  }
}

export interface SignInState {
  isWanted: boolean;
  /** When a sign-in that the page had was found to be over, in ms since 1970. */
  endedAt: number | undefined;
}
