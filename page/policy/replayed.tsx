import { useMemo } from "react";
import type { ReplayAnswer } from "../../src/client/answers.ts";
import { useHere } from "../moment/here.tsx";
import { whenOf } from "../moment/time-text.ts";
import { StillLanes } from "../timeline/lanes/still-lanes.tsx";
import { Legend } from "../timeline/legend.tsx";
import type { Say } from "../words/sentence.ts";
import { useWords } from "../words/words.tsx";
import { AgentTable } from "./agent-table.tsx";
import { Differences } from "./differences.tsx";
import { pictureOf } from "./lane-pair.ts";
import styles from "./policy.module.css";

/** Of more sessions, those that become otherwise are shown, and the newest. */
const MAX_LANES = 16;

export function replaySentence({ before, differing }: ReplayAnswer, say: Say): string {
  if (before.length === 0) return say("policy.empty");
  return differing === 0 ? say("policy.same") : say("policy.differs", { count: differing });
}

/** What would have happened on the floor with another catalogue. */
export function Replayed({ replayed }: { replayed: ReplayAnswer }) {
  const { say, language, number } = useWords();
  const { linkTo, agentName } = useHere();
  const { from = 0, to = 0, requests, reloads, unknown, hasMore, agents } = replayed;
  const picture = useMemo(() => pictureOf(replayed, MAX_LANES), [replayed]);
  const isEmpty = replayed.before.length === 0;
  const [first, last] = [whenOf(from, language), whenOf(to, language)];
  return (
    <div className={styles["replayed"]}>
      <p>
        <b>{replaySentence(replayed, say)}</b>
      </p>
      {!isEmpty && (
        <>
          <p className={styles["quiet"]}>
            {say("policy.played", { requests: number.format(requests), from: first, to: last })}{" "}
            {hasMore && `${say("policy.cut")} `}
            {reloads > 0 && `${say("policy.reloads", { count: reloads })} `}
            {unknown > 0 && `${say("policy.unknown", { count: unknown })} `}
            {say("policy.assumed")}
          </p>
          {(["before", "after"] as const).map((which) => (
            <section key={which} aria-labelledby={`lanes-${which}`}>
              <h3 id={`lanes-${which}`}>{say(`policy.${which}`)}</h3>
              <StillLanes
                {...picture[which]}
                axis={picture.axis}
                span={picture.span}
                end={to}
                label={say("policy.lanes", { sessions: picture.shown })}
                ends={[first, last]}
                linkTo={linkTo}
                agentName={agentName}
              />
            </section>
          ))}
          {picture.left > 0 && <p className={styles["quiet"]}>{say("policy.left", { count: picture.left })}</p>}
          <Legend />
          <Differences replayed={replayed} />
          <AgentTable agents={agents} />
        </>
      )}
    </div>
  );
}
