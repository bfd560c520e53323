import type {
  FastifyBaseLogger,
  FastifyInstance,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
} from "fastify";
import type { ZodTypeProvider } from "fastify-type-provider-zod";
import type { Bus } from "../bus/bus.ts";
import type { Catalog } from "../config/catalog.ts";
import type { CatalogStatus } from "../config/watch.ts";
import type { Clock } from "../protocol/clock.ts";
import type { AgentId } from "../protocol/ids.ts";
import type { Logger } from "../protocol/logger.ts";
import type { Trace } from "../protocol/tracer.ts";
import type { Store } from "../store/store.ts";
import type { Authenticate, Caller } from "./auth.ts";
import type { Commands } from "./commands.ts";
import type { Connections } from "./connections.ts";
import type { Followers } from "./followers.ts";
import type { Streams } from "./streams.ts";
import type { Tickets } from "./tickets.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** Whoever can reach the node may ask. */
    isOpen?: true;
    /** It answers with events, and takes a ticket. */
    isStream?: true;
  }
  interface FastifyRequest {
    /** Once it is admitted; undefined where nobody is told apart. */
    caller: Caller | undefined;
    /** Of what it asked a floor, so that a failure can be found in another node's log. */
    commandId: string | undefined;
    /** What is done for it is part of this; undefined where nobody traces it. */
    trace: Trace | undefined;
  }
}

/** What the routes work with. */
export interface Door {
  authenticate: Authenticate;
  tickets: Tickets;
  commands: Commands;
  connections: Connections;
  followers: Followers;
  streams: Streams;
  store: Store;
  bus: Bus;
  clock: Clock;
  catalog: () => Catalog;
  catalogStatus: () => CatalogStatus;
  /** Whether an agent could answer now: its key is set, its program is found. */
  isAvailable: (id: AgentId) => boolean;
  /** What keeps this node from being ready; empty when it is. */
  missing: () => string[];
  /** Prometheus text. */
  metrics: () => Promise<{ contentType: string; text: string }>;
  version: string;
  log: Logger;
}

export type Routes = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  ZodTypeProvider
>;
