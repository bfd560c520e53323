import { useEffect, useEffectEvent, useRef } from "react";
import type { AgentView } from "../../../src/client/answers.ts";
import { useClient } from "../../../src/react/hooks.ts";
import { useHere } from "../../moment/here.tsx";
import type { WhatIf } from "./what-if.ts";

/** The delay before a hovered button is queried, in ms: a pointer that only passes over it queries nothing. */
const DWELL_MS = 120;
/** How long an answer outlives its agent's hover or focus, in ms: meanwhile the pointer or the focus reaches it. */
const LINGER_MS = 300;

export interface Considered {
  whatIf: WhatIf | undefined;
  onWhatIf: (whatIf: WhatIf | undefined) => void;
}

/**
 * Queries what the start of an agent would do. A shown answer is queried again when the floor changes.
 * @returns `consider` the agent after a delay, `considerNow` at once, `leave` it, `leaveSoon`, or `stay` before that
 */
export function useWhatIf({ whatIf, onWhatIf }: Considered) {
  const client = useClient();
  const { floorId = "", floor, isLive, agents } = useHere();
  const querying = useRef<AbortController>(undefined);
  const leaving = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(
    () => () => {
      querying.current?.abort();
      clearTimeout(leaving.current);
    },
    [],
  );

  const query = ({ id: agentId, workspaceId }: AgentView, delayMs: number) => {
    querying.current?.abort();
    if (!isLive) return;
    const question = new AbortController();
    querying.current = question;
    const { signal } = question;
    setTimeout(() => {
      if (signal.aborted) return;
      client.whatIf(floorId, agentId, { signal, workspaceId }).then(
        ({ decision, refused }) => onWhatIf({ agentId, decision, refused }),
        // If the query fails, nothing is shown: pressing the button shows the reason.
        () => {
          if (!signal.aborted) onWhatIf(undefined);
        },
      );
    }, delayMs);
  };
  const stay = () => clearTimeout(leaving.current);
  const leave = () => {
    stay();
    querying.current?.abort();
    onWhatIf(undefined);
  };
  const leaveSoon = () => {
    stay();
    querying.current?.abort();
    leaving.current = setTimeout(leave, LINGER_MS);
  };
  const consider = (agent: AgentView, delayMs: number) => {
    stay();
    query(agent, delayMs);
  };

  const present = floor ? [[floor.holder], floor.ducked, floor.paused, floor.queued] : [];
  const stack = present.map((each) => each.map((session) => session?.id).join()).join(";");
  const context = JSON.stringify([floor?.flags, floor?.restrictedBy, floor?.reserved]);
  const renew = useEffectEvent(() => {
    const agent = whatIf && agents.find(({ id }) => id === whatIf.agentId);
    if (agent) query(agent, 0);
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: other sessions, flags and restrictions give another answer.
  useEffect(() => renew(), [stack, context]);

  return {
    consider: (agent: AgentView) => consider(agent, DWELL_MS),
    considerNow: (agent: AgentView) => consider(agent, 0),
    leave,
    leaveSoon,
    stay,
  };
}
