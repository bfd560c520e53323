const DAY_MS = 86_400_000;

/**
 * Bounds that no operator needs to change. Modules that may not import the settings get theirs from `app.ts`, or define
 * a bound that only they use beside the code it limits.
 */
export const BOUNDS = {
  /**
   * Floors whose actors stay in memory. Beyond it an idle floor that was not used lately is dropped; its next command
   * loads it again.
   */
  activeFloors: 4_096,
  /** Messages that `/session/load` returns: many screenfuls, in one read. */
  loadedMessages: 500,
  /**
   * Limits of a history that is copied or imported, because its request waits while it is written: messages, and bytes
   * including images.
   */
  historyMessages: 100_000,
  historyBytes: 268_435_456,
  /** Concurrent copies, imports and exports of histories: of one node, and of one caller. */
  histories: 8,
  callerHistories: 2,
  /** The largest file of an import, in bytes: the largest history, with its images in base64. */
  importBytes: 402_653_184,
  /** The longest line of an imported history, in bytes: the longest message, escaped. */
  importedLineBytes: 2_097_152,
  /** The largest catalogue, in bytes: one of a thousand agents has 300 KiB. */
  catalogBytes: 1_048_576,
  /** The memory of the thread that examines a large catalogue, in MiB. A process examines one at a time. */
  catalogMemory: 384,
  /** The size at which a page of waiting turns, or of definitions, ends. */
  pageBytes: 1_048_576,
  /** Agents that operators define in the database, in total and per workspace. Every node keeps them in memory. */
  definitions: 2_000,
  workspaceDefinitions: 200,
  /**
   * Limits of a replay of a floor's log, because its request waits: its newest events, the time, and the memory of its
   * thread, in MiB. A node plays one at a time.
   */
  replayedEvents: 20_000,
  replayTimeMs: 60_000,
  replayMemory: 384,
  /** Decisions that a floor's view shows. */
  shownDecisions: 50,

  /** Runs that one worker drives concurrently. They mostly wait for networks; memory limits their number. */
  runs: 256,
  /** Concurrent runs of one owner: eight owners can fill a worker, but one cannot. */
  ownerRuns: 32,
  /** Additional runs that wait for a person: each checks with its floor every second whether it is still needed. */
  waitingRuns: 512,
  ownerWaitingRuns: 64,
  /**
   * Requests to models' providers that a worker has under way, of all turns with their sub-agents: each takes some 300
   * KB, so these take a sixth of a 1 GiB container.
   */
  modelRequests: 512,
  /** Programs that a worker runs at once, as agents and as MCP servers: one for each run that it may drive. */
  programs: 256,
  /** How long a worker leaves a run of an agent it lacks to other workers: by then every node has the new catalogue. */
  leaveToOthersMs: 60_000,

  /** Connections in addition to event streams, for short requests. */
  spareConnections: 2_048,
  /** Requests that may wait on one connection behind the current one; with more, the connection is closed. */
  pipelined: 32,
  /**
   * Chunked bodies that arrive at once, of one address and of all: 64 KiB in the smallest chunks take 10 ms to read,
   * and everything that has arrived is read in one iteration of the event loop.
   */
  addressChunkedBodies: 16,
  chunkedBodies: 128,
  /** The longest body with a whole conversation, in bytes. It is cut to what its door reads of it while it arrives. */
  conversationBytes: 402_653_184,
  /** Bytes of request bodies in memory per node, received or in progress: a fraction of a 1 GiB container. */
  bodyBytes: 134_217_728,
  /** The same for one address, so that a single client cannot use all of it. */
  addressBodyBytes: 33_554_432,
  /** Bytes of each body that are not counted: small commands pass even when other clients use up the rest. */
  freeBodyBytes: 4_096,
  /** Bytes of responses that a node keeps for clients that have not read them. */
  answerBytes: 134_217_728,
  /** The same for one address. */
  addressAnswerBytes: 33_554_432,
  /** Bytes of each response that are not counted. */
  freeAnswerBytes: 65_536,
  /** Faults that one response lists. */
  shownIssues: 20,

  /**
   * Open event streams of one node; further ones are refused so that clients try another node. An idle one takes some
   * 20 KB.
   */
  streams: 10_000,
  /**
   * Unread bytes after which a reader gets no more deltas, in addition to the kernel's buffers, which hold megabytes.
   */
  unsentBytes: 65_536,
  /** A reader that has not drained its socket for this long is disconnected; it can resume from its position. */
  stallMs: 15_000,
  /**
   * A reader whose system has acknowledged nothing for this long has vanished without a word, and its stream is ended.
   * With a heartbeat and the interval of looks that is within a minute; the system itself gives up after a quarter of
   * an hour.
   */
  silentMs: 25_000,
  /** How often such readers are looked for. */
  silentLookMs: 10_000,
  /**
   * A connection without requests or answers is checked after this long: an answer that waits for a run has no
   * heartbeat.
   */
  keepAliveProbeMs: 30_000,
  /** The interval of heartbeats: proxies close silent connections, mostly after 30 to 60 s. */
  heartbeatMs: 15_000,
  /** The reconnection delay that `retry:` announces to clients. */
  retryMs: 2_000,
  /** Events of one floor kept in memory for readers that are slightly behind; others read the store. */
  keptEvents: 512,
  /** The same in bytes: an event may have 64 KiB. */
  keptBytes: 1_048_576,
  /** Events per read from the store during a replay. */
  replayPage: 256,
  /**
   * Events of history that are read in one iteration of the event loop, for all readers: a few milliseconds of work.
   * Commands and live events are handled in between. Hundreds of readers may come back at once.
   */
  replayLoop: 256,
  /** The interval at which followers are compared with the store (rule C18), in ms. */
  reconcileMs: 1_000,
  /** The number of floors in one query of that comparison. */
  reconcileFloors: 1_000,
  /** Live sessions that one connection may follow: as many as its position of 127 bytes can name. */
  liveSlots: 8,
  /** How long a connection's row is kept after its last stream closed. */
  connectionMs: DAY_MS,

  /** How long receipts and tombstones are kept; a client must not repeat a command later than this. */
  receiptMs: DAY_MS,
  /** How long an incomplete copy or import is kept after the last addition: its request has failed. */
  stagedMs: 3_600_000,
  /** The interval of pruning, and the rows per transaction, which stays short so that writers do not wait for it. */
  pruneMs: 60_000,
  prunePage: 1_000,
} as const;
