import type { Session } from "../../../src/protocol/session.ts";
import { useHere } from "../../moment/here.tsx";

/** Shows another session, such as a new copy. */
export function useOpenSession(): (session: Pick<Session, "id" | "floorId">) => void {
  const { linkTo, follow } = useHere();
  return ({ id, floorId }) => follow(linkTo("session", { floorId, sessionId: id }));
}
