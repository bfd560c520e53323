import { useState } from "react";
import type { LogLine } from "../../src/protocol/message.ts";
import { useClient } from "../../src/react/provider.ts";
import { Outcome } from "../parts/commands/outcome.tsx";
import { useAct } from "../parts/use-act.ts";
import { useWords } from "../words/words.tsx";
import styles from "./session.module.css";

/** The output of an agent's program for a message; read on request. */
export function Logs({ sessionId, messageId }: { sessionId: string; messageId: string }) {
  const { say } = useWords();
  const client = useClient();
  const [lines, setLines] = useState<readonly LogLine[]>();
  const given = useAct();
  const { act, isBusy } = given;
  const read = () =>
    act(async () => {
      const after = lines?.at(-1)?.id;
      const page = await client.listLogs(sessionId, messageId, { limit: 1_000, ...(after !== undefined && { after }) });
      setLines([...(lines ?? []), ...page.logs]);
    });
  return (
    <>
      <button type="button" disabled={isBusy} onClick={() => void read()}>
        {say("session.logs")}
      </button>
      <Outcome of={given} />
      {lines?.length === 0 && <span className={styles["quiet"]}>{say("session.nologs")}</span>}
      {lines && lines.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard.
        <pre className={styles["logs"]} tabIndex={0}>
          {lines.map(({ id, stream, text }) => (
            <span key={id} data-stream={stream}>{`${text}\n`}</span>
          ))}
        </pre>
      )}
    </>
  );
}
