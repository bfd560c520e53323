import type { TicketStore } from "../bus/tickets.ts";
import type { RateLimits } from "../config/rate-limits.ts";
import type { Clock } from "../protocol/clock.ts";
import type { Routes } from "./door.ts";
import { Gatekeeper } from "./gatekeeper.ts";
import { limitRates, type RateLimitOptions } from "./rate-limits.ts";
import { Tickets } from "./tickets.ts";
import type { Verifier } from "./verified.ts";

/** What a gateway with authentication has beside one without. */
export interface Access {
  verifier: Verifier;
  tickets: TicketStore;
  rateLimits: RateLimits;
  shared?: RateLimitOptions["shared"];
}

/** Nobody reaches a route of this scope unknown, but those that are marked open. To be called before routes are added. */
export async function controlAccess(scope: Routes, access: Access, clock: Clock): Promise<void> {
  const gatekeeper = new Gatekeeper({
    verifier: access.verifier,
    tickets: new Tickets(access.tickets, clock),
    limiter: await limitRates(scope, { limits: access.rateLimits, shared: access.shared, clock }),
    clock,
  });
  scope.addHook("onRequest", async (request) => {
    if (!request.routeOptions.config.isOpen) await gatekeeper.admit(request);
  });
}
