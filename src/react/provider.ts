import { createContext, createElement, type ReactNode, use, useMemo } from "react";
import type { Client } from "../client/client.ts";
import { LiveViews } from "../client/live/live-views.ts";

const ViewsContext = createContext<LiveViews | undefined>(undefined);

/** Provides the client to the hooks below it. Hooks for the same thing share one stream. */
export function InterlockProvider({ client, children }: { client: Client; children?: ReactNode }) {
  const views = useMemo(() => new LiveViews(client), [client]);
  return createElement(ViewsContext, { value: views }, children);
}

/** @throws Error outside of `<InterlockProvider>` */
export function useLiveViews(): LiveViews {
  const views = use(ViewsContext);
  if (!views) throw new Error("Interlock's hooks need an <InterlockProvider client={…}> around them.");
  return views;
}

/** The provider's client, for commands. */
export const useClient = (): Client => useLiveViews().client;
