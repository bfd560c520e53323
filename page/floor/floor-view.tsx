import { useState } from "react";
import { useClient } from "../../src/react/provider.ts";
import { useHere } from "../moment/here.tsx";
import { LogFileButtons } from "../moment/log-file-buttons.tsx";
import { FloorChooser } from "../parts/floor-chooser.tsx";
import { floorName } from "../parts/floor-name.ts";
import { useAct } from "../parts/use-act.ts";
import { useWords } from "../words/words.tsx";
import { AgentButtons } from "./agent-buttons.tsx";
import { Decisions } from "./decisions.tsx";
import { Flags } from "./flags.tsx";
import styles from "./floor.module.css";
import { Stack } from "./stack.tsx";
import type { WhatIf } from "./what-if.ts";

/** Who has the floor, who is paused beneath, who waits, and why; and what can be done about it. */
export function FloorView() {
  const { say } = useWords();
  const client = useClient();
  const { floorId, floor, isLive, status } = useHere();
  const [whatIf, setWhatIf] = useState<WhatIf>();
  const { act, refusal, isBusy } = useAct();
  if (floorId === undefined) return <NoFloor />;
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
        {refusal && <p role="alert">{refusal.text}</p>}
      </header>
      <AgentButtons whatIf={whatIf} onWhatIf={setWhatIf} />
      <div className={styles["stack"]}>
        {floor ? <Stack floor={floor} whatIf={whatIf} /> : <Loading isRefused={status.status === "refused"} />}
        {floor && <Flags flags={floor.flags} />}
      </div>
      <Decisions decisions={floor?.decisions ?? []} />
    </section>
  );
}

function Loading({ isRefused }: { isRefused: boolean }) {
  const { say } = useWords();
  const { status } = useHere();
  if (!isRefused) return <p className={styles["loading"]}>{say("floor.loading")}</p>;
  return (
    <p className={styles["loading"]} role="alert">
      {status.failure?.status === 404 ? say("floor.foreign") : (status.failure?.message ?? say("error.title"))}
    </p>
  );
}

function NoFloor() {
  const { say } = useWords();
  return (
    <section className={styles["none"]} aria-labelledby="floor">
      <h1 id="floor">{say("floor.title")}</h1>
      <p>{say("floor.what")}</p>
      <FloorChooser />
      <p>{say("floor.drive")}</p>
      <code>npm run drive</code>
      <p>{say("log.what")}</p>
      <LogFileButtons />
    </section>
  );
}
