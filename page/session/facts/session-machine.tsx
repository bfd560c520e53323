import { charts } from "virtual:charts";
import type { Session } from "../../../src/protocol/session.ts";
import type { Chart } from "../../machine/chart.ts";
import { SessionCharts, useTransitions } from "../../machine/session-charts.tsx";
import { useWords } from "../../words/words.tsx";
import styles from "./facts.module.css";

/** The machine of a session, shown between its conversation and its facts on a wide screen. */
export function SessionMachine({ session }: { session: Session }) {
  const { say } = useWords();
  const transitions = useTransitions(session.id);
  const [, machine] = charts as [Chart, Chart];
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard.
    <section className={styles["machine"]} tabIndex={0} aria-label={say("machine.title")}>
      <SessionCharts machine={machine} session={session} transitions={transitions} />
    </section>
  );
}
