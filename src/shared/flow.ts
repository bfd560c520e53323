/**
 * The hops of a command to its commit, of its events back to their readers, and of the run that it begins to its first
 * delta, in order: each with its file below `src/`, as in the tables of docs/inside/architecture.md. The tables also
 * have files without a hop: the parser of bodies, the machines, the writer's thread, the bus, a track, and the client.
 */
export const HOPS = {
  socket: "gateway/http/sockets/sockets.ts",
  caller: "gateway/access/gatekeeper.ts",
  message: "gateway/routes/messages.ts",
  sight: "gateway/access/visible-sessions.ts",
  chat: "gateway/chat-commands.ts",
  command: "gateway/idempotent-commands.ts",
  mailbox: "cluster/mailbox.ts",
  host: "actors/host/host.ts",
  floor: "actors/host/host.ts",
  rows: "actors/host/admission.ts",
  step: "actors/host/floor-actors.ts",
  arbiter: "actors/floor/arbiter.ts",
  actors: "actors/host/floor-actors.ts",
  change: "actors/host/ledger.ts",
  sqlite: "store/sqlite/writer/writer-thread.ts",
  postgres: "store/postgres/floor-commit.ts",
  committed: "actors/host/commit.ts",
  announcement: "actors/host/commit.ts",
  follower: "gateway/streams/follower.ts",
  log: "gateway/streams/log-stream.ts",
  connection: "gateway/streams/connection-floor.ts",
  frame: "gateway/streams/sse-writer.ts",
  run: "runs/worker.ts",
  claim: "runs/run-claim.ts",
  turn: "runs/attempt.ts",
  agent: "runs/run-driver.ts",
  delta: "runs/attempt.ts",
  draft: "gateway/streams/follower.ts",
} as const;
export type Hop = keyof typeof HOPS;

/**
 * `onHop` hears each hop in this process as it happens; `interlock serve --trace-flow` prints them. Undefined
 * otherwise: `flow.onHop?.(…)` then costs one comparison and evaluates no arguments.
 */
export const flow: { onHop: ((hop: Hop, about: string) => void) | undefined } = { onHop: undefined };
