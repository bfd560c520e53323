import { useEffect, useRef } from "react";
import type { AgentView } from "../../src/client/answers.ts";
import { useClient } from "../../src/react/provider.ts";
import { useHere } from "../moment/here.tsx";
import { Outcome } from "../parts/commands/outcome.tsx";
import { userOfFloor } from "../parts/floor-name.ts";
import { useAct } from "../parts/use-act.ts";
import { useWords } from "../words/words.tsx";
import { DecisionText } from "./decisions.tsx";
import styles from "./floor.module.css";
import type { WhatIf } from "./what-if.ts";

/** The delay before a hovered button is queried, in ms: a pointer that only passes over it queries nothing. */
const DWELL_MS = 120;

export interface AgentButtonsProps {
  whatIf: WhatIf | undefined;
  onWhatIf: (whatIf: WhatIf | undefined) => void;
}

/** A button for each agent of the catalogue. A press requests the floor; hovering shows the result of a request. */
export function AgentButtons({ whatIf, onWhatIf }: AgentButtonsProps) {
  const { say } = useWords();
  const client = useClient();
  const { agents, floorId = "", floor, isLive } = useHere();
  const given = useAct();
  const { act, isBusy } = given;
  const asking = useRef<AbortController>(undefined);
  useEffect(() => () => asking.current?.abort(), []);

  const ask = ({ id: agentId, workspaceId }: AgentView) => {
    asking.current?.abort();
    if (!isLive) return;
    const question = new AbortController();
    asking.current = question;
    const { signal } = question;
    setTimeout(() => {
      if (signal.aborted) return;
      client.whatIf(floorId, agentId, { signal, workspaceId }).then(
        ({ decision }) => onWhatIf({ agentId, decision }),
        // If the query fails, nothing is shown: pressing the button shows the reason.
        () => onWhatIf(undefined),
      );
    }, DWELL_MS);
  };
  const leave = () => {
    asking.current?.abort();
    onWhatIf(undefined);
  };
  const start = ({ id: agentId, workspaceId }: AgentView) => {
    leave();
    const place = { ...userOfFloor(floorId), ...(workspaceId !== undefined && { workspaceId }) };
    void act(() => client.createSession({ agentId, ...place, activate: true }));
  };
  const canStart = isLive && userOfFloor(floorId) !== undefined;

  return (
    <section className={styles["agents"]} aria-labelledby="agents">
      <h2 id="agents">{say("agents.title")}</h2>
      {agents.length === 0 && <p className={styles["quiet"]}>{say(floor ? "agents.empty" : "agents.loading")}</p>}
      <ul>
        {agents.map((agent) => (
          <li key={agent.id}>
            <button
              type="button"
              className={styles["agent"]}
              disabled={!canStart || isBusy}
              data-chosen={whatIf?.agentId === agent.id}
              aria-describedby={`about-${agent.id}`}
              onPointerEnter={() => ask(agent)}
              onPointerLeave={leave}
              onFocus={() => ask(agent)}
              onBlur={leave}
              onClick={() => start(agent)}
            >
              <b>{agent.name}</b>
              <span className={styles["priority"]}>{agent.priority}</span>
              <span className={styles["meter"]} aria-hidden="true">
                <span style={{ width: `${agent.priority}%` }} />
              </span>
              <span className={styles["quiet"]} id={`about-${agent.id}`}>
                {say(agent.interruptible ? "agents.interruptible" : "agents.uninterruptible")}
                {agent.available ? "" : ` · ${say("agents.unavailable")}`}
              </span>
            </button>
          </li>
        ))}
      </ul>
      <div className={styles["answer"]} aria-live="polite">
        {whatIf && (
          <p>
            <b>{say("whatif.title")}</b> <DecisionText decision={whatIf.decision} isWhatIf />
          </p>
        )}
        {!whatIf && <Outcome of={given} />}
      </div>
    </section>
  );
}
