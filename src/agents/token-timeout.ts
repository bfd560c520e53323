import type { Timer } from "../shared/ports/clock.ts";
import type { RunControl } from "./agent.ts";

/** A provider sent no token within its timeout. */
export class TokenTimeout extends Error {
  constructor(hasSpoken: boolean, silentMs: number) {
    super(hasSpoken ? `no further token for ${silentMs} ms` : `no token for ${silentMs} ms`);
    this.name = "TokenTimeout";
  }
}

/** Pauses the timeout of a provider while tools run or a person is asked. Several pauses may overlap. */
export class TimeoutPause {
  #reasons = 0;
  onChange: () => void = () => {};

  get isActive(): boolean {
    return this.#reasons > 0;
  }

  begin(): void {
    this.#reasons += 1;
    if (this.#reasons === 1) this.onChange();
  }

  end(): void {
    this.#reasons -= 1;
    if (this.#reasons === 0) this.onChange();
  }
}

export interface TokenTimeoutOptions<T> {
  after: RunControl["after"];
  /** Timeouts in ms: until the first token, and between two tokens. */
  firstTokenMs: number;
  nextTokenMs: number;
  /** Whether the provider sent the part; the SDK adds parts of its own. */
  isToken: (part: T) => boolean;
  /** Whether the part begins a new request, whose next token is a first token. */
  isBeginning?: (part: T) => boolean;
  /** While it is active, the timeout is paused; afterwards it starts again. */
  pause?: TimeoutPause;
}

/**
 * Pass on a provider's parts, with a timeout for tokens. Time counts only while a part is awaited, so that a paused
 * reader does not cause a timeout.
 * @throws TokenTimeout after `firstTokenMs` or `nextTokenMs` without a token
 */
export async function* withTokenTimeout<T>(
  parts: AsyncIterable<T>,
  {
    after,
    firstTokenMs,
    nextTokenMs,
    isToken,
    isBeginning = () => false,
    pause = new TimeoutPause(),
  }: TokenTimeoutOptions<T>,
): AsyncGenerator<T, void, undefined> {
  const iterator = parts[Symbol.asyncIterator]();
  let hasSpoken = false;
  let isWaiting = false;
  let timer: Timer | undefined;
  let giveUp: (silence: TokenTimeout) => void = () => {};
  const rest = () => {
    timer?.cancel();
    timer = undefined;
  };
  const count = () => {
    if (!isWaiting || pause.isActive) return;
    const silentMs = hasSpoken ? nextTokenMs : firstTokenMs;
    // Other parts do not extend the time until the first token.
    timer ??= after(silentMs, () => giveUp(new TokenTimeout(hasSpoken, silentMs)));
  };
  pause.onChange = () => {
    if (pause.isActive) rest();
    else count();
  };
  try {
    for (;;) {
      const next = await new Promise<IteratorResult<T>>((resolve, reject) => {
        giveUp = reject;
        isWaiting = true;
        count();
        iterator.next().then(resolve, reject);
      });
      isWaiting = false;
      if (next.done) return;
      const wasSpoken = hasSpoken;
      hasSpoken = (hasSpoken && !isBeginning(next.value)) || isToken(next.value);
      if (hasSpoken || wasSpoken) rest();
      yield next.value;
    }
  } finally {
    isWaiting = false;
    rest();
    // Not awaited, because a hanging provider may never settle it.
    iterator.return?.().then(
      () => {},
      () => {},
    );
  }
}
