import { createContext, use, useState } from "react";
import type { LogLine } from "../../src/protocol/message.ts";
import { useClient } from "../../src/react/hooks.ts";
import { Outcome } from "../parts/commands/outcome.tsx";
import { useAct } from "../parts/use-act.ts";
import { useWords } from "../words/words.tsx";
import styles from "./session.module.css";

/** What agents' programs printed since the view was opened, by the ids of the messages. */
export const PrintedContext = createContext<ReadonlyMap<string, readonly LogLine[]>>(new Map());

/** The output of an agent's program for a message, as it comes; the earlier lines are read on request. */
export function Logs({ sessionId, messageId }: { sessionId: string; messageId: string }) {
  const { say } = useWords();
  const client = useClient();
  const [lines, setLines] = useState<readonly LogLine[]>();
  const printed = use(PrintedContext).get(messageId) ?? [];
  const read = new Set(lines?.map(({ id }) => id));
  const shown = [...(lines ?? []), ...printed.filter(({ id }) => !read.has(id))];
  const lastCommand = useAct();
  const { act, isBusy } = lastCommand;
  const readMore = () =>
    act(async () => {
      const after = lines?.at(-1)?.id;
      const page = await client.listLogs(sessionId, messageId, { limit: 1_000, ...(after !== undefined && { after }) });
      setLines([...(lines ?? []), ...page.logs]);
    });
  return (
    <>
      <button type="button" disabled={isBusy} onClick={() => void readMore()}>
        {say("session.logs")}
      </button>
      <Outcome of={lastCommand} />
      {lines && shown.length === 0 && <span className={styles["quiet"]}>{say("session.nologs")}</span>}
      {shown.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard.
        <pre className={styles["logs"]} tabIndex={0}>
          {shown.map(({ id, stream, text }) => (
            <span key={id} data-stream={stream}>{`${text}\n`}</span>
          ))}
        </pre>
      )}
    </>
  );
}
