import type { LiveSession, SessionLiveView } from "../client/live/live-session.ts";
import { useLiveViews } from "./provider.ts";
import { useLive } from "./use-live.ts";

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
