import { useState } from "react";
import type { UsagePage } from "../../src/client/answers.ts";
import { useClient } from "../../src/react/hooks.ts";
import { ScrolledTable } from "../parts/scrolled-table.tsx";
import { usePolled } from "../parts/use-polled.ts";
import { useWords } from "../words/words.tsx";
import styles from "./node.module.css";

/** The interval of the readings, in ms: longer than a short turn. */
const EVERY_MS = 5_000;
/** Rows that are shown. */
const SHOWN = 100;

const COLUMNS = ["day", "owner", "agent", "turns", "input", "output", "tokens"] as const;

/** What turns used on the last days, by owner and agent: of all owners for operators, else of the caller. */
export function DailyUsage() {
  const { say, number } = useWords();
  const page = useUsage();
  if (!page || page.usage.length === 0) return undefined;
  return (
    <div>
      <h2>{say("node.usage")}</h2>
      <ScrolledTable
        label={say("node.usage")}
        heads={COLUMNS.map((column) => say(`node.${column}`))}
        look={[styles["scroll"], styles["usage"]]}
      >
        <tbody>
          {page.usage.map(({ day, ownerId = "", agentId, runs, input, output, tokens }) => (
            <tr key={JSON.stringify([day, ownerId, agentId])}>
              <th scope="row">{day}</th>
              <td>{ownerId === "" ? "–" : ownerId}</td>
              <td>{agentId}</td>
              {Object.entries({ runs, input, output, tokens }).map(([name, count]) => (
                <td key={name}>{number.format(count)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </ScrolledTable>
      {page.next !== undefined && <p className={styles["quiet"]}>{say("node.moreusage")}</p>}
    </div>
  );
}

/** The newest rows. What cannot be read stays as it was: the view says why the node does not answer. */
function useUsage(): UsagePage | undefined {
  const client = useClient();
  const [page, setPage] = useState<UsagePage>();
  const read = async (signal: AbortSignal) => {
    const found = await client.listUsage({ limit: SHOWN }, { signal }).catch(() => undefined);
    if (found) setPage(found);
  };
  usePolled(read, EVERY_MS, client);
  return page;
}
