/**
 * Messages between nodes: hints, not truth. A message may be lost, late, repeated or reordered without any loss of data
 * (docs/inside/architecture.md, principle 1).
 */
export interface Bus {
  /**
   * Whether messages stay in this process and listeners get the object that was published, so that nothing need be
   * encoded. Default: false.
   */
  readonly isLocal?: boolean;
  /**
   * Send a message, of at most 64 KiB, to all subscribers. Waits at most 100 ms and never rejects: a message that the
   * bus cannot take is lost.
   */
  publish(topic: string, message: Uint8Array): Promise<void>;
  /** False when the topic is known to have no listener, so the caller need not encode a message. True is no promise. */
  hasSubscribers(topic: string): boolean;
  /**
   * Receive the messages that are published after the promise is fulfilled. The listener must not throw and must not
   * block; messages of one publisher arrive in the order in which they were published.
   *
   * @throws AppError `unavailable` when the bus is away
   */
  subscribe(topic: string, listener: Listener): Promise<Subscription>;
  /**
   * Whether messages are known not to arrive: on this topic, or without an argument on any topic. Detected within 1.5 s
   * (rule C21). False is no promise.
   */
  isAway(topic?: string): boolean;
  /** Calls the listener when some part of the bus is found to be away. */
  onAway(listener: () => void): Unsubscribe;
  /** Calls the listener when the bus works again and messages may have been lost, even if it never counted as away. */
  onRecovered(listener: () => void): Unsubscribe;
  close(): Promise<void>;
}

export type Listener = (message: Uint8Array) => void;
export type Unsubscribe = () => void;

/** An object, not a function: a function would keep another hundred bytes for each of thousands of topics. */
export interface Subscription {
  /** Stop receiving. Ending it again has no effect. */
  end(): void;
}

/** The maximum size of a message, in bytes. Larger data is stored, and a reference to it is sent (rule C22). */
export const MAX_BUS_MESSAGE = 65_536;
