import type { AddressInfo } from "node:net";
import Fastify, { type FastifyError, type FastifyReply, type FastifyRequest } from "fastify";
import { validatorCompiler, type ZodTypeProvider } from "fastify-type-provider-zod";
import type { TicketStore } from "../bus/tickets.ts";
import type { Envelope } from "../protocol/command.ts";
import { AppError } from "../protocol/errors.ts";
import type { ConnectionId } from "../protocol/ids.ts";
import type { Reply } from "../protocol/reply.ts";
import type { Tracer } from "../protocol/tracer.ts";
import type { Access } from "./access.ts";
import { agentRoutes } from "./agents.ts";
import { type Authenticate, everybodyIsOperator } from "./auth.ts";
import { Commands } from "./commands.ts";
import { Connections } from "./connections.ts";
import type { Door, Routes } from "./door.ts";
import { eventRoutes } from "./events.ts";
import { floorRoutes } from "./floors.ts";
import type { FollowerOptions } from "./follower.ts";
import { Followers } from "./followers.ts";
import { healthRoutes } from "./health.ts";
import { httpBounds, MAX_CONNECTIONS } from "./http-bounds.ts";
import { messageRoutes } from "./messages.ts";
import { publishSchemas } from "./openapi.ts";
import { CORS_OPTIONS, guardOrigins, type OriginOptions } from "./origin.ts";
import { handleProblems, problemBody, toAppError } from "./problem.ts";
import { guardAnswers } from "./security-headers.ts";
import { sessionRoutes } from "./sessions.ts";
import { signInRoutes } from "./sign-in.ts";
import { Streams } from "./streams.ts";
import { Tickets } from "./tickets.ts";
import { traceRequests } from "./traced-requests.ts";

export interface GatewayOptions
  extends Pick<
    Door,
    "store" | "bus" | "clock" | "catalog" | "catalogStatus" | "isAvailable" | "missing" | "metrics" | "version" | "log"
  > {
  ask: (envelope: Envelope) => Promise<Reply>;
  newId: () => string;
  /** 0 to 1. */
  random: () => number;
  origin: OriginOptions;
  /** False for a node of other roles, which tells how it is and lets nobody in. Default: true. */
  isDoor?: boolean;
  /** Absent: nobody is told apart, and everybody is the operator. */
  access?: Access | undefined;
  /** Addresses and networks whose word on where a request comes from counts. */
  proxies: readonly string[];
  maxBodyBytes: number;
  commandDeadlineMs: number;
  /** A reader that took nothing for too long was cut off. */
  onCut: () => void;
  onHeard?: FollowerOptions["onHeard"];
  onBehind?: FollowerOptions["onBehind"];
  tracer?: Tracer | undefined;
}

/** The door: routes in, streams out. It holds no actors and changes nothing itself but connections and blobs. */
export interface Gateway {
  readonly streams: Streams;
  readonly followers: Followers;
  /** Without a socket, for tests and other servers. */
  readonly app: Routes;
  /** @returns the address it listens on; a port of 0 has become a real one */
  listen(host: string, port: number): Promise<{ host: string; port: number }>;
  /** End every stream with a farewell, then close. */
  close(drainMs: number): Promise<void>;
}

/** How long a node that closes waits for answers to be taken, in ms. */
const LINGER_MS = 1_000;

/** Longest piece of a path: a floor id, encoded twice. */
const MAX_PARAM = 4_096;

const ROUTES = [sessionRoutes, messageRoutes, floorRoutes, agentRoutes, eventRoutes, signInRoutes, healthRoutes];

/** Where nobody is told apart nobody looks at tickets. */
const NO_TICKETS: TicketStore = { put: async () => {}, take: async () => undefined };

/** Who asks, where everybody was asked for that at the door. */
const admitted: Authenticate = async ({ caller }) => {
  if (!caller) throw new AppError("unauthorized");
  return caller;
};

export function createGateway(options: GatewayOptions): Gateway {
  const { store, bus, clock, log, newId, random, commandDeadlineMs } = options;
  const app: Routes = Fastify({
    logger: false,
    bodyLimit: options.maxBodyBytes,
    trustProxy: options.proxies.length > 0 && [...options.proxies],
    ...httpBounds(newId),
    genReqId: newId,
    return503OnClosing: false,
    forceCloseConnections: "idle",
    exposeHeadRoutes: false,
    routerOptions: { maxParamLength: MAX_PARAM, ignoreTrailingSlash: false },
    frameworkErrors: sendProblem,
  }).withTypeProvider<ZodTypeProvider>();
  app.setValidatorCompiler(validatorCompiler);
  // Answers are ours and typed; their schemas are for readers of the documentation.
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  app.decorateRequest("trace", undefined);
  if (options.tracer) traceRequests(app, options.tracer);
  acceptJsonOnly(app);
  handleProblems(app, log);
  const { access, origin } = options;
  if (access) guardAnswers(app);
  guardOrigins(app, origin);
  if (origin.origins.length > 0) {
    app.register(import("@fastify/cors"), { ...CORS_OPTIONS, origin: [...origin.origins] });
  }
  app.decorateRequest("caller", undefined);

  const followers = new Followers({ bus, store, clock, log, onHeard: options.onHeard, onBehind: options.onBehind });
  const streams = new Streams({ clock, random, onCut: options.onCut });
  const newConnectionId = () => newId().slice(0, 12) as ConnectionId;
  const door: Door = {
    ...options,
    authenticate: access ? admitted : everybodyIsOperator,
    tickets: new Tickets(access?.tickets ?? NO_TICKETS, clock),
    followers,
    streams,
    connections: new Connections({ store, bus, clock, newConnectionId }),
    commands: new Commands({ ask: options.ask, store, clock, newId, deadlineMs: commandDeadlineMs }),
  };
  publishSchemas(app, options.version, access !== undefined);
  app.register(async (scope) => {
    const routes = scope.withTypeProvider<ZodTypeProvider>();
    if (access) await (await import("./access.ts")).controlAccess(routes, access, clock);
    for (const add of options.isDoor === false ? [healthRoutes] : ROUTES) add(routes, door);
  });

  return {
    streams,
    followers,
    app,
    async listen(host, port) {
      await app.ready();
      app.server.maxConnections = MAX_CONNECTIONS;
      await app.listen({ host, port });
      followers.start();
      streams.start();
      const { address, port: bound } = app.server.address() as AddressInfo;
      return { host: address, port: bound };
    },
    async close(drainMs) {
      await streams.drain(drainMs);
      followers.stop();
      const closed = app.close();
      // Requests under way get their answers. A socket that was opened and never used does not count as idle.
      const late = clock.after(Math.min(drainMs, LINGER_MS), () => app.server.closeAllConnections());
      await closed;
      late.cancel();
    },
  };
}

/** What the framework refuses before any route is found, a path that is no path, say. */
function sendProblem(thrown: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  const error = toAppError(thrown);
  void reply.code(error.status).type("application/json; charset=utf-8").send(problemBody(error, request.id));
}

/** A write without a body is as good as one with an empty object. */
function acceptJsonOnly(app: Routes): void {
  const parse = app.getDefaultJsonParser("error", "error");
  app.removeAllContentTypeParsers();
  app.addContentTypeParser<string>("application/json", { parseAs: "string" }, (request, body, done) => {
    if (body === "") done(null, undefined);
    else void parse(request, body, done);
  });
  app.addHook("preValidation", (request, _reply, done) => {
    if (request.method !== "GET" && request.body === undefined) request.body = {};
    done();
  });
}
