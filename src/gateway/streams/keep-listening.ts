import type { Bus, Listener, Subscription } from "../../bus/bus.ts";
import { AppError } from "../../protocol/errors.ts";

/**
 * Subscribe to a topic, also while the bus is away. In that case the promise resolves at once, the subscription is
 * retried, and `onLate` is called when it succeeds. Messages published before that must be read from elsewhere.
 *
 * @throws every error of `subscribe` except `unavailable`
 */
export async function keepListening(
  bus: Bus,
  topic: string,
  listener: Listener,
  onLate = () => {},
): Promise<Subscription> {
  let isWanted = true;
  let isTrying = false;
  let recoveries = 0;
  let subscription: Subscription | undefined;

  /** Try until the subscription succeeds, or until only waiting for the bus remains. */
  const begin = async (): Promise<boolean> => {
    isTrying = true;
    try {
      while (isWanted) {
        const before = recoveries;
        subscription = await subscribeUnlessAway(bus, topic, listener);
        if (subscription) {
          forget();
          if (!isWanted) subscription.end();
          return isWanted;
        }
        if (recoveries === before) return false;
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
    // Returned as it is: thousands of topics are subscribed, and few had to wait.
    if (await begin()) return subscription!;
  } catch (error) {
    forget();
    throw error;
  }
  return {
    end: () => {
      isWanted = false;
      forget();
      subscription?.end();
    },
  };
}

/** @returns undefined if the bus is away */
async function subscribeUnlessAway(bus: Bus, topic: string, listener: Listener): Promise<Subscription | undefined> {
  try {
    return await bus.subscribe(topic, listener);
  } catch (error) {
    if (error instanceof AppError && error.code === "unavailable") return undefined;
    throw error;
  }
}
