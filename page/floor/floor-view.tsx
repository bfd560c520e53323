import { useState } from "react";
import { useClient } from "../../src/react/provider.ts";
import { useHere } from "../moment/here.tsx";
import { Outcome } from "../parts/commands/outcome.tsx";
import { floorName } from "../parts/floor-name.ts";
import { useAct } from "../parts/use-act.ts";
import { useWords } from "../words/words.tsx";
import { AgentButtons } from "./agent-buttons.tsx";
import { Decisions } from "./decisions.tsx";
import { Flags } from "./flags.tsx";
import styles from "./floor.module.css";
import { Stack } from "./stack.tsx";
import { StartView } from "./start-view.tsx";
import type { WhatIf } from "./what-if.ts";

/** The holder, the paused and the waiting sessions of a floor with their reasons, and the commands for them. */
export function FloorView() {
  const { say } = useWords();
  const client = useClient();
  const { floorId, floor, isLive } = useHere();
  const [whatIf, setWhatIf] = useState<WhatIf>();
  const given = useAct();
  const { act, isBusy } = given;
  if (floorId === undefined) return <StartView />;
  return (
    <section className={styles["view"]} aria-labelledby="floor">
      <header className={styles["head"]}>
        <h1 id="floor">{floorName(floorId)}</h1>
        <button
          type="button"
          disabled={!isLive || isBusy || !floor?.holder}
          onClick={() => void act(() => client.stopFloor(floorId))}
        >
          {say("floor.stop")}
        </button>
        <button
          type="button"
          disabled={!isLive || isBusy || !floor}
          onClick={() => void act(() => client.stopAll(floorId))}
        >
          {say("floor.stopall")}
        </button>
        <Outcome of={given} />
      </header>
      <AgentButtons whatIf={whatIf} onWhatIf={setWhatIf} />
      <div className={styles["stack"]}>
        {!floor && <p className={styles["loading"]}>{say("floor.loading")}</p>}
        {floor && <Stack floor={floor} whatIf={whatIf} />}
        {floor && <Flags flags={floor.flags} />}
      </div>
      <Decisions decisions={floor?.decisions ?? []} />
    </section>
  );
}
