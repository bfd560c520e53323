import type { FloorSummary } from "../../src/protocol/floor.ts";
import { useAgentName } from "../moment/here.tsx";
import { useWords } from "../words/words.tsx";
import { floorName } from "./floor-name.ts";
import { signOf } from "./look.ts";

type Line = Pick<FloorSummary, "floorId" | "state" | "holder" | "paused" | "queued">;

/** A floor in a list: its name, its holder, and the numbers of paused and waiting sessions. */
export function FloorLine({ floor: { floorId, state, holder, paused, queued } }: { floor: Line }) {
  const { say } = useWords();
  const agentName = useAgentName();
  return (
    <>
      <b>{floorName(floorId)}</b>
      <span>
        {say(`floor.${state}`)}
        {holder ? ` · ${agentName(holder.agentId)}` : ""}
        {paused > 0 ? ` · ${signOf("paused")} ${paused}` : ""}
        {queued > 0 ? ` · ${signOf("queued")} ${queued}` : ""}
      </span>
    </>
  );
}
