import type { ConnectionView, LiveConnection } from "../client/live/live-connection.ts";
import { useLiveViews } from "./provider.ts";
import { useLive } from "./use-live.ts";

/** Whether the server is reachable, and which agents it offers. */
export function useConnection(): ConnectionView & { connection: LiveConnection } {
  const { connection } = useLiveViews();
  return { ...useLive(connection), connection };
}
