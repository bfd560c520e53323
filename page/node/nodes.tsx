import type { HeardReport } from "../../src/protocol/internal/node-report.ts";
import { whenOf } from "../moment/time-text.ts";
import { ScrolledTable } from "../parts/scrolled-table.tsx";
import { useWords } from "../words/words.tsx";
import styles from "./node.module.css";
import { type RollCalled, rateOf } from "./roll-called.ts";

const HEADS = [
  "node.title",
  "node.state",
  "node.rolesof",
  "node.partitions",
  "node.streams",
  "node.commandsrate",
  "node.commitsrate",
  "node.waiting",
  "node.runsof",
  "node.slow",
  "node.lastfailure",
] as const;

/** Every node of the store: its roles, its share of the floors, its streams, runs and queues. */
export function Nodes({ readings }: { readings: readonly RollCalled[] }) {
  const { say, number } = useWords();
  const { nodes, absentRoles = [] } = readings.at(-1) ?? {};
  if (!nodes) return undefined;
  return (
    <section aria-labelledby="nodes">
      <h2 id="nodes">{say("node.nodes", { count: number.format(nodes.length) })}</h2>
      {absentRoles.map((role) => (
        <p key={role} role="alert">
          <span aria-hidden="true">✕</span> {say(`node.no${role}`)}
        </p>
      ))}
      <ScrolledTable
        label={say("node.table")}
        heads={HEADS.map((head) => say(head))}
        look={[styles["scroll"], styles["nodes"]]}
      >
        <tbody>
          {nodes.map((each) => (
            <NodeRow key={each.node} now={each} readings={readings} />
          ))}
        </tbody>
      </ScrolledTable>
    </section>
  );
}

function NodeRow({ now, readings }: { now: HeardReport; readings: readonly RollCalled[] }) {
  const { say, number, language } = useWords();
  const { node, name, roles, isSelf, missing, silentMs, partitions, connections, runs, slowReaders, lastFailure } = now;
  const isBad = silentMs !== undefined || missing.length > 0;
  const state =
    silentMs === undefined
      ? missing.join(", ") || say("node.ready")
      : say("node.silent", { seconds: number.format(Math.ceil(silentMs / 1_000)) });
  const rate = (counter: "commands" | "commits") => {
    const each = rateOf(readings, node, counter);
    return each === undefined ? "–" : number.format(Math.round(each * 10) / 10);
  };
  return (
    <tr data-bad={isBad}>
      <th scope="row">
        <code title={node}>{name ?? shortOf(node)}</code>
        {isSelf && <small> {say("node.this")}</small>}
      </th>
      <td>
        <span aria-hidden="true">{isBad ? "✕" : "●"}</span> {state}
      </td>
      <td>{roles.join(", ")}</td>
      <td>{number.format(partitions)}</td>
      <td>{number.format(connections)}</td>
      <td>{rate("commands")}</td>
      <td>{rate("commits")}</td>
      <td>{number.format(now.commandsWaiting + now.asksWaiting)}</td>
      <td>{[runs.driven, runs.held, runs.waiting].map((each) => number.format(each)).join(" · ")}</td>
      <td>{number.format(slowReaders)}</td>
      <td>
        {lastFailure && (
          <>
            {whenOf(lastFailure.at, language)} · {lastFailure.agentId} · <b>{lastFailure.errorCode}</b>{" "}
            {lastFailure.reason}
          </>
        )}
      </td>
    </tr>
  );
}

/** Ids created at about the same time differ at their ends. */
export const shortOf = (id: string): string => id.slice(-8);
