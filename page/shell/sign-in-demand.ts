import { Watchers } from "../../src/client/watchers.ts";

/** What the page knows of its sign-in when it is loaded. */
export interface SignInDemandOptions {
  /** Who is signed in with this browser, as far as it remembers. */
  ownerId: string | undefined;
  /**
   * Load the page anew, because it is another user's now. Requests that wait are not sent.
   * @param newOwner who signed in while the page was in use; undefined: nothing needs to be said
   */
  beginAnew: (newOwner: string | undefined) => void;
}

/** Whether the server wants a sign-in. Requests that it refused wait for it (`signInAgain` of the client). */
export class SignInDemand {
  readonly #watchers = new Watchers();
  readonly subscribe = this.#watchers.subscribe;
  readonly #beginAnew: SignInDemandOptions["beginAnew"];
  #ownerId: string | undefined;
  /** Set while requests wait. */
  #waiting: Promise<void> | undefined;
  #endWait: (() => void) | undefined;
  #wasIn = false;
  #view: SignInState = { isWanted: false, endedAt: undefined };

  constructor({ ownerId, beginAnew }: SignInDemandOptions) {
    this.#ownerId = ownerId;
    this.#beginAnew = beginAnew;
  }

  get view(): SignInState {
    return this.#view;
  }

  /** Resolves when the user has signed in; never if another user did, because the page then begins anew. */
  readonly signIn = (): Promise<void> => {
    this.#waiting ??= new Promise((resolve) => {
      this.#endWait = resolve;
    });
    this.#show({ isWanted: true, endedAt: this.#wasIn ? Date.now() : undefined });
    return this.#waiting;
  };

  readonly signedIn = (ownerId: string | undefined): void => {
    const isFirst = this.#ownerId === undefined && !this.#wasIn;
    const isSame = ownerId !== undefined && ownerId === this.#ownerId;
    if (!isFirst && !isSame) return this.#beginAnew(this.#wasIn ? ownerId : undefined);
    this.#ownerId = ownerId;
    this.#endWait?.();
    this.#waiting = undefined;
    this.#show({ isWanted: false, endedAt: undefined });
  };

  /** Another tab signed in, or out (undefined). The tabs of a browser share the cookie. */
  readonly changedElsewhere = (ownerId: string | undefined): void => {
    if (ownerId !== this.#ownerId) this.#beginAnew(this.#wasIn ? ownerId : undefined);
    else if (this.#waiting) this.signedIn(ownerId);
  };

  /** A stream is open: a later 401 is the end of a sign-in, and not the first question. */
  readonly noteOpen = (): void => {
    this.#wasIn = true;
  };

  #show(view: SignInState): void {
    this.#view = view;
    this.#watchers.notify();
  }
}

export interface SignInState {
  isWanted: boolean;
  /** When a sign-in that the page had was found to be over, in ms since 1970. */
  endedAt: number | undefined;
}
