const DAY_MS = 86_400_000;

/**
 * Bounds no operator needs to turn. Rooms that may not know the settings get theirs from `app.ts`, or keep what is
 * theirs alone beside the code it bounds.
 */
export const BOUNDS = {
  /** Floors whose actors stay in memory; the one idle longest makes room and is loaded again when it is asked for. */
  activeFloors: 4_096,
  /** Messages of a session that come with `/session/load`: a screenful many times over, one page to read. */
  loadedMessages: 500,
  /** Decisions that a floor's view shows. */
  shownDecisions: 50,

  /** Runs that one worker drives at once. They wait for networks, not for this process; memory is what limits them. */
  runs: 256,
  /** A run whose agent a worker lacks is left to other workers so long: a catalogue is everywhere by then. */
  lackingMs: 60_000,

  /** Open event streams of one node; the next are sent elsewhere. Idle ones take 14 KB each. */
  streams: 10_000,
  /** Bytes a reader may leave unread before it gets no more deltas. Beyond the kernel's own buffers, which hold megabytes. */
  unsentBytes: 65_536,
  /** A reader that takes nothing for so long is disconnected; it comes back with its position. */
  stallMs: 15_000,
  /** Proxies close what is silent, mostly after 30 to 60 s. */
  heartbeatMs: 15_000,
  /** What `retry:` tells a client to wait before it comes back. */
  retryMs: 2_000,
  /** Events of one floor kept in memory for readers that are a little behind; others read the store. */
  keptEvents: 512,
  /** The same in bytes: an event may have 64 KiB. */
  keptBytes: 1_048_576,
  /** Events read from the store at a time in a replay. */
  replayPage: 256,
  /** How often followers are compared with the store (rule C18) … */
  reconcileMs: 1_000,
  /** … and how many of them at a time: one query. */
  reconcileFloors: 1_000,
  /** Living sessions one connection may follow: what its position, of 127 bytes, can name. */
  bindings: 8,
  /** A connection's row stays so long after its last stream closed. */
  connectionMs: DAY_MS,

  /** Receipts and tombstones: a client that repeats later than this has forgotten too. */
  receiptMs: DAY_MS,
  /** How often what is past its time is pruned, and how many rows at a time, so that no writer waits behind it. */
  pruneMs: 60_000,
  prunePage: 1_000,
} as const;
