import type { ReplayAnswer } from "../../src/client/answers.ts";
import { useHere } from "../moment/here.tsx";
import { lengthText } from "../moment/time-text.ts";
import type { WordKey } from "../words/en.ts";
import { useWords } from "../words/words.tsx";
import styles from "./policy.module.css";

type Tally = ReplayAnswer["agents"][number]["before"];

const COUNTS = ["requests", "granted", "rejected"] as const;
const TIMES = ["waitedMs", "frontMs", "beneathMs", "silentMs", "longestSilenceMs"] as const;
const ROWS = ["before", "after"] as const;

/** What each agent got, before and with the other catalogue. */
export function AgentTable({ agents }: Pick<ReplayAnswer, "agents">) {
  const { say, language, number } = useWords();
  const { agentName } = useHere();
  const timeText = (ms: number) =>
    ms === 0 ? "–" : ms < 1_000 ? `< ${lengthText(1_000, language)}` : lengthText(ms, language);
  const refusedBy = ({ refusedBy }: Tally) =>
    Object.entries(refusedBy)
      .map(([reason, count]) => `${reason} ${count}×`)
      .join(", ");
  return (
    <div>
      <h3>{say("policy.agents")}</h3>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard. */}
      <section className={styles["scroll"]} tabIndex={0} aria-label={say("policy.agents")}>
        <table className={styles["tallies"]}>
          <thead>
            <tr>
              <th scope="col">{say("policy.agent")}</th>
              <th scope="col">{say("policy.when")}</th>
              {[...COUNTS, ...TIMES].map((column) => (
                <th key={column} scope="col">
                  {say(`policy.${column.toLowerCase()}` as WordKey)}
                </th>
              ))}
              <th scope="col">{say("policy.refusedby")}</th>
            </tr>
          </thead>
          {agents.map(({ agentId, ...tallies }) => (
            <tbody key={agentId}>
              {ROWS.map((which) => (
                <tr key={which}>
                  {which === "before" && (
                    <th scope="rowgroup" rowSpan={ROWS.length}>
                      {agentName(agentId)}
                    </th>
                  )}
                  <th scope="row">{say(`policy.${which}`)}</th>
                  {COUNTS.map((column) => (
                    <td key={column} data-differs={tallies.before[column] !== tallies.after[column]}>
                      {number.format(tallies[which][column])}
                    </td>
                  ))}
                  {TIMES.map((column) => (
                    <td key={column} data-differs={tallies.before[column] !== tallies.after[column]}>
                      {timeText(tallies[which][column])}
                    </td>
                  ))}
                  <td>{refusedBy(tallies[which]) || "–"}</td>
                </tr>
              ))}
            </tbody>
          ))}
        </table>
      </section>
    </div>
  );
}
