import { createContext, createElement, type ReactNode, use, useSyncExternalStore } from "react";
import type { Client } from "../client/client.ts";
import type { Live, LiveState } from "../client/live/live.ts";
import type { ConnectionView, LiveConnection } from "../client/live/live-connection.ts";
import type { FloorLiveView, LiveFloor } from "../client/live/live-floor.ts";
import type { FloorsLiveView } from "../client/live/live-floors.ts";
import type { LiveSession, SessionLiveView } from "../client/live/live-session.ts";
import { LiveViews } from "../client/live/live-views.ts";

const viewsOf = new WeakMap<Client, LiveViews>();

/** The live views of a client: one set for all its providers. */
export function liveViewsOf(client: Client): LiveViews {
  const views = viewsOf.get(client) ?? new LiveViews(client);
  viewsOf.set(client, views);
  return views;
}

const ViewsContext = createContext<LiveViews | undefined>(undefined);

/** Provides the client to the hooks below it. Hooks for the same thing share one stream. */
export function InterlockProvider({ client, children }: { client: Client; children?: ReactNode }) {
  return createElement(ViewsContext, { value: liveViewsOf(client) }, children);
}

/** The provider's live views. @throws Error outside of `<InterlockProvider>`, like every hook here */
export function useLiveViews(): LiveViews {
  const views = use(ViewsContext);
  if (!views) throw new Error("Interlock's hooks need an <InterlockProvider client={…}> around them.");
  return views;
}

/** The provider's client, for commands. */
export const useClient = (): Client => useLiveViews().client;

/** Whether the server is reachable, and which agents it offers. */
export function useConnection(): ConnectionView & { connection: LiveConnection } {
  const { connection } = useLiveViews();
  return { ...useLive(connection), connection };
}

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

/**
 * A session: its state, its messages as they are written, and its agent's questions. `live.send()` sends it a message.
 * @param options `isParticipant`: the component plays the session, and renews its lease, if it has one
 */
export function useSession(
  id: string,
  { isParticipant = false }: { isParticipant?: boolean } = {},
): SessionLiveView & { live: LiveSession } {
  const views = useLiveViews();
  const live = isParticipant ? views.participant(id) : views.session(id);
  return { ...useLive(live), live };
}

/** The state of a live view; renders again when it changes. Its stream is open while the component is mounted. */
function useLive<T extends LiveState>(live: Live<T>): T {
  const view = () => live.view;
  return useSyncExternalStore(live.subscribe, view, view);
}
