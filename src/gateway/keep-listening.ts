import type { Bus, Listener, Unsubscribe } from "../bus/bus.ts";
import { AppError } from "../protocol/errors.ts";

/**
 * Listen to a topic, and where the bus is away, from when it is there again: the promise is fulfilled all the same, and
 * `onLate` is called then. What was published before that is for the caller to find elsewhere.
 *
 * @throws whatever `subscribe` throws beside `unavailable`
 */
export async function keepListening(
  bus: Bus,
  topic: string,
  listener: Listener,
  onLate: () => void,
): Promise<Unsubscribe> {
  let isWanted = true;
  let isTrying = false;
  let recoveries = 0;
  let unsubscribe: Unsubscribe | undefined;

  /** Tries until it listens, or until there is nothing to do but wait for the bus. */
  const begin = async (): Promise<boolean> => {
    isTrying = true;
    try {
      while (isWanted) {
        const before = recoveries;
        try {
          unsubscribe = await bus.subscribe(topic, listener);
          forget();
          if (!isWanted) unsubscribe();
          return isWanted;
        } catch (error) {
          if (!(error instanceof AppError) || error.code !== "unavailable") throw error;
          if (recoveries === before) return false;
        }
      }
      return false;
    } finally {
      isTrying = false;
    }
  };
  const forget = bus.onRecovered(() => {
    recoveries += 1;
    if (isTrying) return;
    begin().then(
      (isListening) => isListening && onLate(),
      () => {},
    );
  });
  try {
    // As it is: thousands listen, and hardly one of them had to wait.
    if (await begin()) return unsubscribe!;
  } catch (error) {
    forget();
    throw error;
  }
  return () => {
    isWanted = false;
    forget();
    unsubscribe?.();
  };
}
