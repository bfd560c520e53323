import { useState } from "react";
import type { ListedRun } from "../../src/protocol/listed-run.ts";
import { useClient } from "../../src/react/hooks.ts";
import { useHere } from "../moment/here.tsx";
import { lengthText, whenOf } from "../moment/time-text.ts";
import { Outcome } from "../parts/commands/outcome.tsx";
import { Sure } from "../parts/commands/sure.tsx";
import { ScrolledTable } from "../parts/scrolled-table.tsx";
import { type Act, useAct } from "../parts/use-act.ts";
import { failureText } from "../words/failure-text.ts";
import { useWords } from "../words/words.tsx";
import styles from "./node.module.css";

/** The runs of a moment, and the last failures; `hasMore`: there are more than the table shows. */
export interface RunsRead {
  runs: readonly ListedRun[];
  failed: readonly ListedRun[];
  hasMore: boolean;
}

const RUN_HEADS = ["runs.agent", "node.state", "runs.age", "runs.user", "runs.more", "runs.do"] as const;
const FAILED_HEADS = ["runs.agent", "runs.why", "runs.when", "runs.user"] as const;
const LOOK = [styles["scroll"], styles["nodes"]];

/** The runs that the caller may see: which wait for what, which node has them, and which failed. */
export function Runs({ read: { runs, failed, hasMore }, now }: { read: RunsRead; now: number }) {
  const { say, number } = useWords();
  const lastCommand = useAct();
  return (
    <>
      <section aria-labelledby="runs">
        <h2 id="runs">{say("runs.title", { count: `${number.format(runs.length)}${hasMore ? "+" : ""}` })}</h2>
        <Outcome of={lastCommand} />
        {runs.length === 0 ? (
          <p className={styles["quiet"]}>{say("runs.none")}</p>
        ) : (
          <ScrolledTable label={say("runs.table")} heads={RUN_HEADS.map((head) => say(head))} look={LOOK}>
            <tbody>
              {runs.map((run) => (
                <RunRow key={run.id} run={run} now={now} lastCommand={lastCommand} />
              ))}
            </tbody>
          </ScrolledTable>
        )}
      </section>
      {failed.length > 0 && (
        <div>
          <h2>{say("runs.failed")}</h2>
          <ScrolledTable label={say("runs.failed")} heads={FAILED_HEADS.map((head) => say(head))} look={LOOK}>
            <tbody>
              {failed.map((run) => (
                <FailedRow key={run.id} run={run} />
              ))}
            </tbody>
          </ScrolledTable>
        </div>
      )}
    </>
  );
}

function RunRow({ run, now, lastCommand }: { run: ListedRun; now: number; lastCommand: Act }) {
  const { say, language } = useWords();
  const client = useClient();
  const [isCancelling, setCancelling] = useState(false);
  const { id, state, at, claimedAt, worker, again, attempt = 1, asks = [], purpose } = run;
  const age = (since: number) => lengthText(Math.max(0, now - since), language);
  const details = [
    ...(purpose ? [say("runs.summary")] : []),
    ...(again ? [say("runs.again", { attempt, after: again.after })] : []),
    ...(claimedAt === undefined ? [] : [say("runs.at", { node: worker ?? "–", time: age(claimedAt) })]),
    ...asks.flatMap(({ kind, tool = "", isStill }) => [
      say(kind === "confirmation" ? "runs.consent" : "runs.question", { tool }),
      ...(isStill ? [say("ask.still")] : []),
    ]),
  ];
  const cancel = async () => {
    setCancelling(false);
    await lastCommand.act(
      () => client.cancelRun(id),
      () => say("runs.cancelled"),
    );
  };
  return (
    <tr>
      <AgentCell run={run} />
      <td>{say(`runs.${state}`)}</td>
      <td>{age(at)}</td>
      <td>{run.userId}</td>
      <td>{details.join(" · ")}</td>
      <td>
        {/* It stays beside its question, which returns the focus to it. */}
        <button type="button" disabled={lastCommand.isBusy} onClick={() => setCancelling(true)}>
          {say("runs.cancel")}
        </button>
        {isCancelling && (
          <Sure
            question={say("runs.sure")}
            yes={say("runs.cancel")}
            onYes={(giveBack) => {
              giveBack();
              void cancel();
            }}
            onNo={() => setCancelling(false)}
          />
        )}
      </td>
    </tr>
  );
}

function FailedRow({ run }: { run: ListedRun }) {
  const { say, language } = useWords();
  const { failure, at, userId, isFollowed } = run;
  return (
    <tr data-bad={!isFollowed}>
      <AgentCell run={run} />
      <td>
        {failure && failureText({ code: failure.errorCode, message: failure.message }, say)}
        {isFollowed && ` · ${say("runs.followed")}`}
      </td>
      <td>{whenOf(at, language)}</td>
      <td>{userId}</td>
    </tr>
  );
}

function AgentCell({ run: { sessionId, floorId, agentId, title } }: { run: ListedRun }) {
  const { linkTo, agentName } = useHere();
  return (
    <th scope="row">
      <a href={linkTo("session", { floorId, sessionId, at: undefined })} title={title}>
        {agentName(agentId)}
      </a>
    </th>
  );
}
