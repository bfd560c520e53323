import { createContext, createElement, type ReactNode, use } from "react";
import type { Client } from "../client/client.ts";
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
