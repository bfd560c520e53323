import { lazy, Suspense, useState } from "react";
import type { Decision } from "../../src/protocol/decision.ts";
import { useClient } from "../../src/react/hooks.ts";
import { useHere } from "../moment/here.tsx";
import { Outcome } from "../parts/commands/outcome.tsx";
import { floorName } from "../parts/floor-name.ts";
import { useMedia } from "../parts/screen/use-media.ts";
import { useAct } from "../parts/use-act.ts";
import { useWords } from "../words/words.tsx";
import { AgentButtons } from "./agents/agent-buttons.tsx";
import type { WhatIf } from "./agents/what-if.ts";
import { Decisions } from "./decisions.tsx";
import { FloorFlags } from "./flags.tsx";
import styles from "./floor.module.css";
import { SheetBar } from "./sheet-bar.tsx";
import { Side } from "./side.tsx";
import { Stack } from "./stack.tsx";
import { StartView } from "./start-view.tsx";

/** A separate script, because few screens have room for it. */
const RecentLanes = lazy(async () => ({ default: (await import("./recent-lanes.tsx")).RecentLanes }));

const NONE: readonly Decision[] = [];

/** The holder, the paused and the waiting sessions of a floor with their reasons, and the commands for them. */
export function FloorScreen() {
  const { say } = useWords();
  const client = useClient();
  const { floorId, floor, isLive } = useHere();
  const [whatIf, setWhatIf] = useState<WhatIf>();
  const lastCommand = useAct();
  const { act, isBusy } = lastCommand;
  const isNarrow = useMedia("(max-width: 700px)");
  const isWide = useMedia("(min-width: 1800px)");
  if (floorId === undefined) return <StartView />;
  const archivedSentence = ({ archived }: { archived: readonly string[] }) =>
    say("told.stopped", { count: archived.length });
  const considered = { whatIf, onWhatIf: setWhatIf };
  const decisions = floor?.decisions ?? NONE;
  const flags = floor && <FloorFlags {...floor} />;
  return (
    <section className={styles["view"]} aria-labelledby="floor">
      <header className={styles["head"]}>
        <h1 id="floor">{floorName(floorId)}</h1>
        <button
          type="button"
          data-risky
          disabled={!isLive || isBusy || !floor?.holder}
          onClick={() => void act(() => client.stopFloor(floorId), archivedSentence)}
        >
          {say("floor.stop")}
        </button>
        <button
          type="button"
          data-risky
          disabled={!isLive || isBusy || !floor}
          onClick={() => void act(() => client.stopAll(floorId), archivedSentence)}
        >
          {say("floor.stopall")}
        </button>
        <Outcome of={lastCommand} />
      </header>
      {!isNarrow && <Side {...considered} />}
      <div className={styles["stack"]}>
        {!floor && <p className={styles["loading"]}>{say("floor.loading")}</p>}
        {floor && <Stack floor={floor} whatIf={whatIf} />}
        {!isNarrow && flags}
        {floor && isWide && (
          <Suspense>
            <RecentLanes />
          </Suspense>
        )}
      </div>
      {!isNarrow && <Decisions decisions={decisions} />}
      {isNarrow && (
        <>
          <AgentButtons {...considered} />
          {flags}
          <SheetBar decisions={decisions} />
        </>
      )}
    </section>
  );
}
