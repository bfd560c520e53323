import type { AddressInfo } from "node:net";
import Fastify, { type FastifyError, type FastifyReply, type FastifyRequest } from "fastify";
import { validatorCompiler, type ZodTypeProvider } from "fastify-type-provider-zod";
import type { Bus } from "../bus/bus.ts";
import type { TicketStore } from "../bus/ticket-store.ts";
import { BOUNDS } from "../config/bounds.ts";
import type { Catalog } from "../config/catalog/catalog.ts";
import type { CatalogStatus } from "../config/catalog/watched-catalog.ts";
import { AppError } from "../protocol/errors.ts";
import type { AgentId, ConnectionId } from "../protocol/ids.ts";
import type { Envelope } from "../protocol/internal/command.ts";
import type { HeardReport } from "../protocol/internal/node-report.ts";
import type { Reply } from "../protocol/internal/reply.ts";
import { answerJson } from "../protocol/session-json.ts";
import { isObject } from "../shared/json.ts";
import { LoopBudget } from "../shared/loop-budget.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import type { Tracer } from "../shared/ports/tracer.ts";
import type {
  BlobStore,
  DefinitionStore,
  LogStore,
  MessageStore,
  StagedCopies,
  Store,
  StoreSecret,
} from "../store/store.ts";
import { type Caller, type CallerOf, everybodyIsOperator } from "./access/caller.ts";
import type { Access, Gatekeeper } from "./access/gatekeeper.ts";
import { KnownAddresses } from "./access/known-addresses.ts";
import { Tickets } from "./access/tickets.ts";
import { VisibleSessions } from "./access/visible-sessions.ts";
import { AbandonedRuns } from "./deliveries/abandoned-runs.ts";
import { RecentRequests } from "./deliveries/recent-requests.ts";
import { guardAnswers, httpBounds } from "./http/http-bounds.ts";
import { acceptJsonOnly, finishBody } from "./http/json-bodies.ts";
import { KnownPaths } from "./http/known-paths.ts";
import { boundAnswers } from "./http/large-answers.ts";
import { guardKeys } from "./http/near-keys.ts";
import { CORS_OPTIONS, guardOrigins, type OriginOptions } from "./http/origin.ts";
import type { PageFiles } from "./http/page-files.ts";
import {
  type DescribeProblem,
  describeProblem,
  handleProblems,
  refusalOf,
  sendProblem,
  toAppError,
} from "./http/problem.ts";
import { LoopPace } from "./http/sockets/loop-pace.ts";
import { Sockets } from "./http/sockets/sockets.ts";
import { traceRequests } from "./http/traced-requests.ts";
import { IdempotentCommands } from "./idempotent-commands.ts";
import type { Definitions, Routes, TurnContext } from "./route-context.ts";
import { RouterQuestions } from "./router-questions.ts";
import { agentRoutes } from "./routes/agents.ts";
import { catalogueRoutes } from "./routes/catalogues.ts";
import { definitionRoutes } from "./routes/definitions.ts";
import { eventRoutes } from "./routes/events.ts";
import { floorRoutes } from "./routes/floors.ts";
import { healthRoutes } from "./routes/health.ts";
import { type FailedMessage, messageRoutes, type RollBack } from "./routes/messages.ts";
import { publishSchemas } from "./routes/openapi.ts";
import { pageRoutes } from "./routes/page.ts";
import { replayRoutes } from "./routes/replays.ts";
import { runRoutes } from "./routes/runs.ts";
import { sessionMessageRoutes } from "./routes/session-messages.ts";
import { sessionRoutes } from "./routes/sessions.ts";
import { signInRoutes } from "./routes/sign-in.ts";
import { usageRoutes } from "./routes/usage.ts";
import { userRoutes } from "./routes/users.ts";
import { type ShownWebhooks, webhookRoutes } from "./routes/webhooks.ts";
import { Sentences } from "./sentences.ts";
import { Connections } from "./streams/connections.ts";
import { FloorWatch } from "./streams/floor-watch.ts";
import type { FollowerOptions } from "./streams/follower.ts";
import { Followers } from "./streams/followers.ts";
import { Streams, type StreamsOptions } from "./streams/open-streams.ts";

export interface GatewayOptions extends Pick<TurnContext, "absentRoles"> {
  store: Store;
  bus: Bus;
  clock: Clock;
  /** Measures elapsed time, and never jumps. */
  stopwatch: Clock;
  catalog: () => Catalog;
  catalogStatus: () => CatalogStatus;
  /** The agents that operators defined in the database. */
  definitions: Definitions;
  /** Whether an agent could answer now: whether its key is set and its program exists. */
  isAvailable: (id: AgentId) => boolean;
  /** Why this node is not ready; empty when it is. */
  missing: () => string[];
  metrics: () => Promise<{ contentType: string; text: string }>;
  /** What every node of this store says of itself. */
  callNodes: () => Promise<HeardReport[]>;
  /** Default: none. */
  webhooks?: ShownWebhooks | undefined;
  version: string;
  log: Logger;
  /** The built page; undefined if it was not built. */
  page?: PageFiles | undefined;
  send: (envelope: Envelope) => Promise<Reply>;
  newId: () => string;
  /** A random number from 0 (inclusive) to 1. */
  random: () => number;
  origin: OriginOptions;
  /** False for a node without the gateway role, which serves health routes only. Default: true. */
  isGateway?: boolean;
  /** What the node serves beside the gateway's own routes. Default: nothing. */
  doors?: (context: GatewayContext) => readonly Door[];
  /** Absent when authentication is off: every caller is the operator. */
  access?: Access | undefined;
  /** Addresses and networks of trusted proxies, whose `X-Forwarded-*` headers count. */
  proxies: readonly string[];
  /** The maximum number of connections of one address. */
  addressConnections: number;
  maxBodyBytes: number;
  commandDeadlineMs: number;
  /** The peers that answer nothing. Absent: streams of vanished readers stay until the system gives up. */
  unanswered?: StreamsOptions["unanswered"];
  /** A reader was cut off because it is too slow, or has vanished. */
  onCut: () => void;
  onReceived?: FollowerOptions["onReceived"];
  onBehind?: FollowerOptions["onBehind"];
  tracer?: Tracer | undefined;
}

/**
 * The HTTP server: routes and event streams. It runs no actors. What it writes without a floor: connections, blobs,
 * agents' definitions, staged copies, and the deletion of forgotten users.
 */
export interface Gateway {
  readonly streams: Streams;
  readonly followers: Followers;
  /** The app without a socket, for tests and other servers. */
  readonly app: Routes;
  /** @returns the address it listens on, with the real port in place of port 0 */
  listen(host: string, port: number): Promise<{ host: string; port: number }>;
  /** End every stream with a `bye`, then close. */
  close(drainMs: number): Promise<void>;
}

/** Copies, or another protocol: routes beside the gateway's own, and how they answer failures. */
export interface Door {
  addRoutes: (app: Routes) => void;
  /** Carries out the client message `rollback`. */
  rollBack?: RollBack;
  /** How a client message that failed is answered. Default: with its error. */
  failed?: FailedMessage;
  /** The shape of the failures of all paths that begin so, with or without a route. Default: the gateway's own. */
  problems?: { below: string; describe: DescribeProblem };
}

/** What routes depend on. */
export type GatewayContext = ReturnType<typeof createContext>;

/** How long a closing node waits for clients to read their answers, in ms. */
const LINGER_MS = 1_000;

/**
 * Connections that the system queues until they are accepted. Beyond it they are dropped, and clients, including
 * probes, retry only after seconds. Systems may lower this value.
 */
const BACKLOG = 4_096;

/** Longest segment of a path: a floor id, encoded twice. */
const MAX_PARAM = 4_096;

const ROUTES = [
  sessionRoutes,
  sessionMessageRoutes,
  userRoutes,
  floorRoutes,
  replayRoutes,
  runRoutes,
  agentRoutes,
  definitionRoutes,
  catalogueRoutes,
  webhookRoutes,
  eventRoutes,
  signInRoutes,
  usageRoutes,
  healthRoutes,
  pageRoutes,
];

/** Unused when authentication is off. */
const NO_TICKETS: TicketStore = { put: async () => {}, redeem: async () => undefined };

/** The caller, where the `onRequest` hook has authenticated the request. */
const authenticatedCaller: CallerOf = ({ caller }) => {
  if (!caller) throw new AppError("unauthorized");
  return caller;
};

/** Authenticates requests, if authentication is on; set when the routes are registered. */
interface Gate {
  keeper?: Gatekeeper;
}

/** What the server and its routes share. */
interface Parts {
  sockets: Sockets;
  pace: LoopPace;
  gate: Gate;
  doors: readonly Door[];
}

/** What routes use of the store themselves. */
type RouteStore = LogStore &
  BlobStore &
  DefinitionStore &
  StagedCopies &
  StoreSecret &
  Pick<MessageStore, "findMessage"> &
  Pick<Store, "forgetUser">;

/** Create the server with its routes. It listens only after `listen`. */
export function createGateway(options: GatewayOptions): Gateway {
  const { store, bus, clock, stopwatch, log, random, unanswered, onCut, onReceived, onBehind, access } = options;
  const pace = new LoopPace();
  const sockets = createSockets(options, pace);
  const gate: Gate = {};
  const followers = new Followers({
    bus,
    store,
    clock,
    log,
    pace: new LoopBudget(BOUNDS.replayLoop),
    onReceived,
    onBehind,
  });
  const isWithdrawn = access && ((keyId: string) => access.verifier.isWithdrawn(keyId));
  const streams = new Streams({ clock, stopwatch, random, unanswered, onCut, isWithdrawn });
  const context = createContext(options, followers, streams, gate);
  const doors = options.doors?.(context) ?? [];
  const app = createServer(options, { sockets, pace, gate, doors });
  addRoutes(app, options, context, { gate, doors });

  return {
    streams,
    followers,
    app,
    async listen(host, port) {
      await app.ready();
      await app.listen({ host, port, backlog: BACKLOG });
      sockets.start();
      followers.start();
      streams.start();
      const { address, port: bound } = app.server.address() as AddressInfo;
      return { host: address, port: bound };
    },
    async close(drainMs) {
      await streams.drain(drainMs);
      followers.stop();
      sockets.stop();
      const closed = app.close();
      // Requests in progress get their answers. A socket that was opened and never used does not count as idle.
      const late = clock.after(Math.min(drainMs, LINGER_MS), () => app.server.closeAllConnections());
      await closed;
      late.cancel();
      context.requests.close();
      context.abandoned.close();
    },
  };
}

function createSockets({ stopwatch, proxies, addressConnections, onCut }: GatewayOptions, pace: LoopPace): Sockets {
  return new Sockets({
    pace,
    clock: stopwatch,
    proxies,
    max: BOUNDS.streams + BOUNDS.spareConnections,
    maxPerAddress: addressConnections,
    onCut,
  });
}

/** The JSON of an answer. */
function answerText(data: unknown): string {
  const showsSession = isObject(data) && "session" in data;
  return showsSession ? answerJson(data) : JSON.stringify(data);
}

/** The server with all that applies to every request. Its hooks run in the order in which they are added here. */
function createServer(options: GatewayOptions, { sockets, pace, gate, doors }: Parts): Routes {
  const { access, log, newId, origin, proxies, maxBodyBytes, tracer } = options;
  const paths = new KnownPaths();
  const bodies = { maxBytes: maxBodyBytes, pace, sockets };
  const shapes = doors.flatMap(({ problems }) => problems ?? []);
  const describe = (url: string) => shapes.find(({ below }) => url.startsWith(below))?.describe ?? describeProblem;
  /** Answers what the framework refuses before it finds a route, for example a malformed path. */
  const refuse = async (thrown: FastifyError, request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const error = toAppError((await gate.keeper?.countAddress(request).then(() => thrown, toAppError)) ?? thrown);
    finishBody(request, reply, bodies);
    await sendProblem(reply, describe(request.url)(error, request.id));
  };
  const app: Routes = Fastify({
    logger: false,
    bodyLimit: maxBodyBytes,
    trustProxy: proxies.length > 0 && [...proxies],
    ...httpBounds({ sockets, paths, newId }),
    genReqId: newId,
    return503OnClosing: false,
    forceCloseConnections: "idle",
    exposeHeadRoutes: false,
    routerOptions: { maxParamLength: MAX_PARAM, ignoreTrailingSlash: false },
    frameworkErrors: refuse,
    // In place of Fastify's own, which are a twentieth of a node's start. The server's answers are typed: their schemas
    // serve the documentation only.
    schemaController: {
      compilersFactory: { buildValidator: () => validatorCompiler as never, buildSerializer: () => () => answerText },
    },
  }).withTypeProvider<ZodTypeProvider>();
  app.decorateRequest("trace", undefined);
  app.decorateRequest("caller", undefined);
  app.decorateRequest("delivery", undefined);
  app.addHook("onRequest", (request, reply, done) => {
    request.response = reply.raw;
    done();
  });
  if (tracer) traceRequests(app, tracer);
  paths.watch(app);
  handleProblems(app, { paths, log, describe });
  if (access) {
    guardAnswers(app);
    // Every request is counted, including unknown paths and open routes.
    app.addHook("onRequest", (request) => gate.keeper!.countAddress(request));
  }
  acceptJsonOnly(app, bodies);
  guardKeys(app);
  boundAnswers(app);
  guardOrigins(app, origin, log);
  if (origin.origins.length > 0) {
    app.register(import("@fastify/cors"), { ...CORS_OPTIONS, origin: [...origin.origins] });
  }
  app.after(() => {
    // Refuse before the body is read.
    app.addHook("onRequest", (request, _reply, done) => {
      done(request.is404 ? refusalOf(paths, request.url) : undefined);
    });
  });
  return app;
}

/**
 * What routes depend on. Each module of routes declares what it needs of it. The store's views and floors are not among
 * it: they are read through `visibleTo` (rule C26).
 */
function createContext(options: GatewayOptions, followers: Followers, streams: Streams, gate: Gate) {
  const { store, bus, clock, stopwatch, log, newId, send, access, unanswered } = options;
  const addresses = new KnownAddresses(clock);
  const connections = new Connections({
    store,
    bus,
    clock,
    newConnectionId: () => newId().slice(0, 12) as ConnectionId,
    openOf: (ownerId) => streams.connectionOf(ownerId),
  });
  const among = { bus, clock: stopwatch, epoch: store.epoch };
  const requests = new RecentRequests({ ...among, store, time: () => clock.now(), unanswered });
  const abandoned = new AbandonedRuns({
    ...among,
    log,
    abort: async (caller, { floorId, sessionId, runId }) => {
      const command = { type: "session.abort" as const, sessionId, runId };
      await commands.carryOut(commands.newIdentity(caller), async () => ({ floorId, command }));
    },
  });
  const visibleTo = (caller: Caller) => new VisibleSessions(caller, { store, addresses });
  const commands = new IdempotentCommands({
    send,
    store,
    connections,
    addresses,
    visibleTo,
    requests,
    abandoned,
    clock,
    newId,
    timeoutMs: options.commandDeadlineMs,
  });
  const routers = new RouterQuestions({ bus, epoch: store.epoch, clock: stopwatch, newId });
  return {
    ...options,
    store: store as RouteStore,
    callerOf: access ? authenticatedCaller : everybodyIsOperator,
    /** The caller on an open route; undefined for an unknown caller. */
    recognize: async (request: FastifyRequest) =>
      access ? await gate.keeper!.recognize(request) : everybodyIsOperator(request),
    tickets: new Tickets(access?.tickets ?? NO_TICKETS, clock),
    followers,
    floorWatch: new FloorWatch({ store, clock, log }),
    streams,
    visibleTo,
    connections,
    commands,
    requests,
    abandoned,
    sentences: new Sentences({ catalog: options.catalog, routers, visibleTo, clock, stopwatch }),
  };
}

function addRoutes(
  app: Routes,
  { access, isGateway = true, version, clock, stopwatch }: GatewayOptions,
  context: GatewayContext,
  { gate, doors }: Pick<Parts, "gate" | "doors">,
): void {
  publishSchemas(app, version, access !== undefined);
  app.register(async (scope) => {
    const routes = scope.withTypeProvider<ZodTypeProvider>();
    if (access) {
      const { controlAccess } = await import("./access/gatekeeper.ts");
      gate.keeper = await controlAccess(routes, access, { clock, stopwatch });
    }
    if (!isGateway) return healthRoutes(routes, context);
    for (const add of ROUTES) add(routes, context);
    const rollBack = doors.find((door) => door.rollBack)?.rollBack;
    const failed = doors.find((door) => door.failed)?.failed ?? ((_, error) => ({ error }));
    messageRoutes(routes, { ...context, rollBack, failed });
    for (const door of doors) door.addRoutes(routes);
  });
}
