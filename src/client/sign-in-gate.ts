import { raceAborted } from "../shared/waiting.ts";
import { ClientError } from "./client-error.ts";

/**
 * Asks for a new sign-in after a 401, once for all requests. Meanwhile nothing is sent: refused requests, and those
 * that come, wait for the sign-in and are then sent as they were.
 */
export class SignInGate {
  readonly #signIn: () => Promise<void>;
  #renewing: Promise<void> | undefined;
  #signIns = 0;

  /**
   * @param signIn resolves when the user has signed in again. If it rejects, all waiting requests fail with its reason.
   */
  constructor(signIn: () => Promise<void>) {
    this.#signIn = signIn;
  }

  /**
   * Run an attempt, and again after each sign-in that a 401 asked for.
   * @param onRefused called for each 401, before the wait
   * @throws what the attempt throws, except 401; the reason of the signal, if it is aborted during a wait
   */
  async pass<T>(
    attempt: () => Promise<T>,
    signal: AbortSignal | undefined,
    onRefused?: (error: ClientError) => void,
  ): Promise<T> {
    for (;;) {
      const renewing = this.#renewing;
      if (renewing) await raceAborted(signal, () => renewing);
      const signIns = this.#signIns;
      try {
        return await attempt();
      } catch (error) {
        if (!(error instanceof ClientError) || error.status !== 401) throw error;
        onRefused?.(error);
        // A sign-in that came while the refusal was under way is newer than the refusal.
        if (this.#signIns === signIns) this.#renewing ??= this.#renew();
      }
    }
  }

  async #renew(): Promise<void> {
    try {
      await this.#signIn();
      this.#signIns += 1;
    } finally {
      this.#renewing = undefined;
    }
  }
}
