/**
 * Messages between nodes: hints, not truth. One may be lost, late, repeated or reordered, and nothing is lost by that
 * (docs/architecture.md, principle 1).
 */
export interface Bus {
  /**
   * Tell everybody who subscribed. Waits at most 100 ms and never rejects: what the bus cannot take is lost. At most
   * 64 KiB a message.
   */
  publish(topic: string, message: Uint8Array): Promise<void>;
  /** False where it is known that nobody would hear: then nothing need be encoded. True is no promise. */
  isHeard(topic: string): boolean;
  /**
   * Hear what is published from the moment the promise is fulfilled. The listener must not throw and must not keep the
   * bytes' caller waiting; messages of one publisher come in the order in which they were published.
   *
   * @throws AppError `unavailable` when the bus is away: nothing would be heard
   */
  subscribe(topic: string, listener: Listener): Promise<Unsubscribe>;
  /**
   * Whether it is known that nothing arrives: on a topic, or anywhere at all where none is named. It is known within
   * 1.5 s (rule C21). False is no promise.
   */
  isAway(topic?: string): boolean;
  /** Called when some of the bus is found to be away. */
  onAway(listener: () => void): Unsubscribe;
  /** Called after messages may have been lost, when the bus is there again; also without having been away. */
  onRecovered(listener: () => void): Unsubscribe;
  close(): Promise<void>;
}

export type Listener = (message: Uint8Array) => void;
export type Unsubscribe = () => void;

/** What a message may weigh; larger things are stored, and a reference travels (rule C22). */
export const MAX_BUS_MESSAGE = 65_536;
