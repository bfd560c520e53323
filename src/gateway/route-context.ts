import type { ServerResponse } from "node:http";
import type {
  FastifyBaseLogger,
  FastifyInstance,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
} from "fastify";
import type { ZodTypeProvider } from "fastify-type-provider-zod";
import type { Catalog } from "../config/catalog/catalog.ts";
import type { AgentDefinition } from "../config/catalog/definition.ts";
import type { AgentId } from "../protocol/ids.ts";
import type { NodeRole } from "../protocol/internal/node-report.ts";
import type { Trace } from "../shared/ports/tracer.ts";
import type { Caller, CallerOf } from "./access/caller.ts";
import type { VisibleSessions } from "./access/visible-sessions.ts";
import type { Delivery } from "./deliveries/delivery.ts";
import type { KeptConversation } from "./http/conversation-cut.ts";
import type { BodyArrival } from "./http/json-bodies.ts";
import type { IdempotentCommands } from "./idempotent-commands.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** The route needs no authentication. */
    isOpen?: true;
    /** The route is a probe for operations. */
    isProbe?: true;
    /**
     * The route answers whatever the `Host` is: load balancers and monitors call a node by its address, or by no name.
     */
    acceptsAnyHost?: true;
    /** The route answers with an event stream and accepts a ticket. */
    isStream?: true;
    /** The route's body may hold a whole conversation: what the route reads of it. */
    conversation?: KeptConversation;
    /** The route accepts lines of JSON as a stream. */
    acceptsLines?: true;
    /** The route accepts a catalogue as YAML, and gets its bytes. */
    acceptsYaml?: true;
  }
  interface FastifyRequest {
    /** Set once the caller is authenticated; undefined when authentication is off. */
    caller: Caller | undefined;
    /** Earlier messages of the conversation in its body were left out. */
    isConversationCut: boolean;
    /** The `Host` is not the node's, on a route that takes any. */
    namesAnotherHost: boolean;
    /** The id of the command sent to a floor, to find a failure in another node's log. */
    commandId: string | undefined;
    /** The answer on its connection. */
    response: ServerResponse;
    /** Whether the answer arrives; of a write without a key. */
    delivery: Delivery | undefined;
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

export interface CallerContext {
  callerOf: CallerOf;
}

/** What a caller may see. */
export interface SightContext extends CallerContext {
  /** The sessions and floors that a caller may see. Routes look them up in no other way. */
  visibleTo: (caller: Caller) => VisibleSessions;
}

/** What a caller may do. */
export interface CommandContext extends SightContext {
  commands: IdempotentCommands;
}

/** What a caller may do, where it may begin a turn. */
export interface TurnContext extends CommandContext {
  /** The roles that no node has, as this node knows: a hint, read at no cost. */
  absentRoles: () => readonly NodeRole[];
}

export type Routes = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  ZodTypeProvider
>;
