import type { FloorLiveView, LiveFloor } from "../client/live/live-floor.ts";
import type { FloorsLiveView } from "../client/live/live-floors.ts";
import { useLiveViews } from "./provider.ts";
import { useLive } from "./use-live.ts";

/**
 * A floor: its holder, the sessions paused below it, those that wait, and the decisions.
 * @param id the `floorId` of a session, such as `u:<user>`
 */
export function useFloor(id: string): FloorLiveView & { live: LiveFloor } {
  const live = useLiveViews().floor(id);
  return { ...useLive(live), live };
}

/** All floors in use that the user may see. */
export function useFloors(): FloorsLiveView {
  return useLive(useLiveViews().floors);
}
