import { type Catalog, restrictionsBy } from "../../config/catalog/catalog.ts";
import type { ArbiterContext } from "./arbiter-step.ts";
import { isEligible } from "./floor-state.ts";

/**
 * Whether the holder gives way once nothing runs in its session (`idle_yields`): a session that may come up waits in
 * the queue, or asked while it was paused.
 */
export function givesWayWhenIdle({ floor, flags, hours }: ArbiterContext, catalog: Catalog): boolean {
  const { holder, queued, paused } = floor;
  if (!holder || catalog.agents.get(holder.agentId)?.idleYields !== true) return false;
  const waiting = [...queued, ...paused.filter(({ wants }) => wants)];
  if (waiting.length === 0) return false;
  // The hours of the floor's last event, which are those of now: it settles whenever they change.
  const isHour = (name: string) => hours?.inForce.includes(name) === true;
  const restrictions = restrictionsBy(catalog, flags, isHour);
  return waiting.some((contender) => isEligible(contender, { ...catalog, restrictions }));
}
