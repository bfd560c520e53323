import { useEffect, useState } from "react";
import type { Session } from "../../../src/protocol/session.ts";
import { useClient } from "../../../src/react/hooks.ts";
import { useHere } from "../../moment/here.tsx";
import { Outcome } from "../../parts/commands/outcome.tsx";
import { useAct } from "../../parts/use-act.ts";
import { useWords } from "../../words/words.tsx";
import styles from "../session.module.css";
import { modesOf } from "./modes-of.ts";

/** The mode of the session's agent, which can be changed at the current moment. Nothing for an agent without modes. */
export function ModeChoice({ session }: { session: Session }) {
  const { say } = useWords();
  const client = useClient();
  const { agents, isLive } = useHere();
  const lastCommand = useAct();
  const { act, isBusy } = lastCommand;
  // The answer may arrive before the stream reports the change: until then, the list shows the choice.
  const [chosen, setChosen] = useState<string>();
  // biome-ignore lint/correctness/useExhaustiveDependencies: a mode that arrives takes the place of the choice.
  useEffect(() => setChosen(undefined), [session.mode]);
  const modes = modesOf(agents, session, isLive);
  if (!modes) return undefined;
  const choose = async (mode: string) => {
    // The list is not disabled meanwhile, because that would remove the focus from it.
    if (isBusy) return;
    setChosen(mode);
    if (!(await act(() => client.switchMode(session.id, mode)))) setChosen(undefined);
  };
  return (
    <>
      {"· "}
      <label className={styles["mode"]}>
        {say("session.mode")}{" "}
        <select
          value={(isLive ? chosen : undefined) ?? modes.current}
          disabled={!isLive || session.state === "archived"}
          onChange={({ target }) => void choose(target.value)}
        >
          {modes.names.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>{" "}
      <Outcome of={lastCommand} />
    </>
  );
}
