import { useState } from "react";
import type { Session } from "../../../src/protocol/session.ts";
import { useClient } from "../../../src/react/hooks.ts";
import { useHere } from "../../moment/here.tsx";
import { useWords } from "../../words/words.tsx";
import { NewSessionForm } from "./new-session-form.tsx";

interface Props {
  session: Session;
  /** The last message to copy. Default: all of them. */
  messageId?: string;
  onLeave: () => void;
}

/** Asks for the agent of a session's copy: its own by default, or another one of its catalogue. */
export function ForkForm({ session, messageId, onLeave }: Props) {
  const { say } = useWords();
  const client = useClient();
  const { agents, agentName } = useHere();
  const [chosen, setChosen] = useState<string>();
  const agentId = chosen ?? session.agentId;
  const isListed = agents.some(({ id }) => id === agentId);
  const input = {
    ...(messageId !== undefined && { messageId }),
    ...(agentId !== session.agentId && { agentId }),
  };
  return (
    <NewSessionForm<HTMLSelectElement>
      name={say(messageId === undefined ? "session.fork" : "message.fork")}
      yes={say("fork.yes")}
      make={() => client.forkSession(session.id, input)}
      onLeave={onLeave}
    >
      {(field) => (
        <label>
          {say("fork.agent")}{" "}
          <select ref={field} value={agentId} onChange={({ target }) => setChosen(target.value)}>
            {!isListed && <option value={agentId}>{agentName(agentId)}</option>}
            {agents.map(({ id, name, available }) => (
              <option key={id} value={id}>
                {available ? name : `${name} · ${say("agents.unavailable")}`}
              </option>
            ))}
          </select>
        </label>
      )}
    </NewSessionForm>
  );
}
