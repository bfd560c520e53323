import { data as charts } from "virtual:charts";
import { useRef, useState } from "react";
import type { Session } from "../../../src/protocol/session.ts";
import type { Chart } from "../../machine/chart.ts";
import { SessionCharts, useTransitions } from "../../machine/session-charts.tsx";
import { useViewport } from "../../parts/screen/use-viewport.ts";
import { useWords } from "../../words/words.tsx";
import styles from "./facts.module.css";

/** The height of the captions, borders and gaps of the charts, in px. */
const CAPTIONS_PX = 92;

/** The machine of a session, shown between its conversation and its facts on a wide screen. */
export function SessionMachine({ session }: { session: Session }) {
  const { say } = useWords();
  const transitions = useTransitions(session.id);
  const [, machine] = charts as [Chart, Chart];
  const column = useRef<HTMLElement>(null);
  const [height, setHeight] = useState(0);
  useViewport(column, ({ clientHeight }) => setHeight(clientHeight));
  const tall = machine.regions.reduce((sum, region) => sum + region.tall.height, 0);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard.
    <section ref={column} className={styles["machine"]} tabIndex={0} aria-label={say("machine.title")}>
      <SessionCharts
        machine={machine}
        session={session}
        transitions={transitions}
        fitting={(height - CAPTIONS_PX) / tall}
      />
    </section>
  );
}
