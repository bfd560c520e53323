import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifyRequest,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
} from "fastify";
import type { ZodTypeProvider } from "fastify-type-provider-zod";
import type { Bus } from "../bus/bus.ts";
import type { Catalog } from "../config/catalog/catalog.ts";
import type { AgentDefinition } from "../config/catalog/definition.ts";
import type { CatalogStatus } from "../config/catalog/watched-catalog.ts";
import type { Histories } from "../copies/histories.ts";
import type { AgentId } from "../protocol/ids.ts";
import type { HeardReport, NodeRole } from "../protocol/internal/node-report.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import type { Trace } from "../shared/ports/tracer.ts";
import type { Store } from "../store/store.ts";
import type { Authenticate, Caller } from "./access/caller.ts";
import type { Tickets } from "./access/tickets.ts";
import type { VisibleSessions } from "./access/visible-sessions.ts";
import type { ChatCommands } from "./chat-commands.ts";
import type { Commands } from "./commands.ts";
import type { KeptConversation } from "./http/conversation-cut.ts";
import type { BodyArrival } from "./http/json-bodies.ts";
import type { PageFiles } from "./http/page-files.ts";
import type { Connections } from "./streams/connections.ts";
import type { FloorWatch } from "./streams/floor-watch.ts";
import type { Followers } from "./streams/followers.ts";
import type { Streams } from "./streams/open-streams.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** The route needs no authentication. */
    isOpen?: true;
    /** The route is a probe for operations. */
    isProbe?: true;
    /** The route answers whatever the `Host` is: load balancers and monitors call a node by its address, or by no name. */
    takesAnyHost?: true;
    /** The route answers with an event stream and accepts a ticket. */
    isStream?: true;
    /** The route's body may hold a whole conversation: what the route reads of it. */
    conversation?: KeptConversation;
    /** The route accepts lines of JSON as a stream. */
    takesLines?: true;
    /** The route accepts a catalogue as YAML, and gets its bytes. */
    takesYaml?: true;
  }
  interface FastifyRequest {
    /** Set once the request is admitted; undefined when authentication is off. */
    caller: Caller | undefined;
    /** The `Host` is not the node's, on a route that takes any. */
    namesAnotherHost: boolean;
    /** The id of the command sent to a floor, to find a failure in another node's log. */
    commandId: string | undefined;
    /** The request's body, if it has one. */
    arrival: BodyArrival | undefined;
    /** The trace that the request is part of; undefined if it is not traced. */
    trace: Trace | undefined;
  }
}

/** The definitions of agents in the database, as this node knows them. */
export interface Definitions {
  all: () => readonly { id: AgentId; version: number; definition: AgentDefinition }[];
  /** The catalogue of the file, without these definitions. */
  file: () => Catalog;
  /** Read the definitions if they changed. @throws AppError `unavailable` */
  refresh: () => Promise<void>;
  /** Announce a change to all nodes. */
  announce: () => Promise<void>;
}

/** What the routes depend on. */
export interface RouteContext {
  authenticate: Authenticate;
  /** The caller on an open route; undefined for an unknown caller. */
  recognize: (request: FastifyRequest) => Promise<Caller | undefined>;
  tickets: Tickets;
  /** The sessions and floors that a caller may see. Routes look them up in no other way. */
  visibleTo: (caller: Caller) => VisibleSessions;
  commands: Commands;
  chats: ChatCommands;
  histories: Histories;
  connections: Connections;
  followers: Followers;
  floorWatch: FloorWatch;
  streams: Streams;
  store: Store;
  bus: Bus;
  clock: Clock;
  /** Measures elapsed time, and never jumps. */
  stopwatch: Clock;
  catalog: () => Catalog;
  /** The agents that operators defined in the database. */
  definitions: Definitions;
  catalogStatus: () => CatalogStatus;
  /** Whether an agent could answer now: whether its key is set and its program exists. */
  isAvailable: (id: AgentId) => boolean;
  /** Why this node is not ready; empty when it is. */
  missing: () => string[];
  /** Metrics as Prometheus text. */
  metrics: () => Promise<{ contentType: string; text: string }>;
  /** The roles that no node has, as this node knows: a hint, read at no cost. */
  absentRoles: () => readonly NodeRole[];
  /** What every node of this store says of itself. */
  callNodes: () => Promise<HeardReport[]>;
  version: string;
  log: Logger;
  /** The built page; undefined if it was not built. */
  page?: PageFiles | undefined;
}

export type Routes = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  ZodTypeProvider
>;
