import type { ReplayAnswer } from "../../src/client/answers.ts";
import { useHere } from "../moment/here.tsx";
import { lengthText } from "../moment/time-text.ts";
import { ScrolledTable } from "../parts/scrolled-table.tsx";
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
  const counted = [...COUNTS, ...TIMES].map((column) => say(`policy.${column.toLowerCase()}` as WordKey));
  const heads = [say("policy.agent"), say("policy.when"), ...counted, say("policy.refusedby")];
  return (
    <div>
      <h3>{say("policy.agents")}</h3>
      <ScrolledTable label={say("policy.agents")} heads={heads} look={[styles["scroll"], styles["tallies"]]}>
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
      </ScrolledTable>
    </div>
  );
}
