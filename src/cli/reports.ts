import type { AgentView } from "../client/answers.ts";
import type { Client } from "../client/client.ts";
import type { HeardReport } from "../protocol/internal/node-report.ts";
import type { Session } from "../protocol/session.ts";
import { localDayOf } from "./local-time.ts";
import { cutToWidth, fitToWidth, widthOf, wrapToWidth } from "./text-width.ts";

/** The width of a report, in columns. */
export const WIDTH = 80;
const GAP = "  ";
/** The widest column before the last. */
const MAX_CELL = 24;
/** The maximum number of sessions on one page, and of characters of an id: enough to distinguish ids. */
const PAGE = 200;
const SHORT_ID = 22;
/** Of a node's name. */
const NODE_NAME = 18;

/** What a command prints: a text for 80 columns, or with `--json` the same facts. */
export interface Report {
  facts: object;
  lines: string[];
  /** Something that was asked about does not work: the command ends with code 1. */
  isFaulty?: boolean;
}

export interface SessionsQuery {
  user?: string | undefined;
  agent?: string | undefined;
  archived?: boolean | undefined;
  limit: number;
}

/** The nodes of the store, what waits, and what is missing. */
export async function reportStatus(client: Client, now: number): Promise<Report> {
  const { nodes, absentRoles } = await client.listNodes();
  const unclaimed = unclaimedRuns(await client.getMetrics());
  const stillQuestions = await countStill(client);
  const { runs, commands } = sumOf(nodes);
  const rows = nodes.map((node) => [
    shortName(node),
    node.roles.map((role) => role.slice(0, 4)).join(","),
    node.version,
    agoOf(now - node.startedAt),
    String(node.floors),
    String(node.connections),
    `${node.runs.driven}/${node.runs.held}/${node.runs.waiting}`,
    node.silentMs === undefined ? "" : agoOf(node.silentMs),
  ]);
  const lines = [
    ...table(["NODE", "ROLES", "VERSION", "UP", "FLOORS", "STREAMS", "RUNS", "SILENT"], rows),
    "",
    `runs: ${runs.driven} driven, ${runs.held} held for paused sessions, ${runs.waiting} waiting for a person`,
    ...(stillQuestions > 0
      ? [`questions whose time stands still, because their sessions are silent: ${stillQuestions}`]
      : []),
    ...(unclaimed > 0 ? [`runs that no worker has taken: ${unclaimed}`] : []),
    `commands that wait for their floor: ${commands}`,
    ...absentRoles.map((role) => `no node has the role ${role}: ${ABSENT[role]}`),
    ...nodes.flatMap((node) => node.missing.map((what) => `node ${shortName(node)} is not ready: ${what}`)),
    ...nodes.flatMap(({ lastFailure: failed }) =>
      failed
        ? wrapToWidth(
            `the last failed run, ${agoOf(now - failed.at)} ago, of ${failed.agentId}: ${failed.reason}`,
            WIDTH,
          )
        : [],
    ),
  ];
  const isFaulty = absentRoles.length > 0 || nodes.some(({ missing }) => missing.length > 0);
  return { facts: { nodes, absentRoles, unclaimedRuns: unclaimed, stillQuestions }, lines: lines.map(fit), isFaulty };
}

/** The number of open questions whose time stands still, because their sessions are not heard. */
async function countStill(client: Client): Promise<number> {
  let count = 0;
  let after: string | undefined;
  do {
    const page = await client.listRuns({ ...(after !== undefined && { after }) });
    for (const { asks = [] } of page.runs) count += asks.filter(({ isStill }) => isStill).length;
    after = page.next;
  } while (after !== undefined);
  return count;
}

/** The agents that sessions may have, in the order of the catalogue. */
export async function reportAgents(client: Client): Promise<Report> {
  const { agents, defaultAgentId } = await client.listAgents();
  const rows = agents.map((agent) => [
    agent.id === defaultAgentId ? `${agent.id} *` : agent.id,
    String(agent.priority),
    agent.interruptible ? "" : "does not yield",
    stateOf(agent),
    agent.description || agent.name,
  ]);
  const lines = [...table(["AGENT", "PRIORITY", "", "", "DESCRIPTION"], rows), "", "* the default"];
  return { facts: { agents, defaultAgentId }, lines: lines.map(fit) };
}

/** The sessions that the caller may see, those with the newest activity first. */
export async function reportSessions(
  client: Client,
  { user, agent, archived = false, limit }: SessionsQuery,
  now: number,
): Promise<Report> {
  const query = { includeArchived: archived, ...(user && { userId: user }), ...(agent && { agentId: agent }) };
  const sessions: Session[] = [];
  let total = 0;
  for (let page = 0; sessions.length < limit; page++) {
    const found = await client.listSessions({ ...query, page, pageSize: Math.min(PAGE, limit) });
    total = found.total;
    sessions.push(...found.sessions);
    if (!found.hasMore) break;
  }
  sessions.splice(limit);
  const rows = sessions.map((session) => [
    session.id.length > SHORT_ID ? `${session.id.slice(0, SHORT_ID - 1)}…` : session.id,
    session.schedule ? `asks ${localDayOf(session.schedule.at)}` : session.state,
    session.agentId,
    session.userId ?? "",
    agoOf(now - session.lastActivityAt),
    session.title,
  ]);
  const lines = table(["SESSION", "STATE", "AGENT", "USER", "ACTIVE", "TITLE"], rows);
  if (total > sessions.length) lines.push("", `${sessions.length} of ${total} sessions: --limit shows more`);
  return { facts: { sessions, total }, lines: lines.map(fit) };
}

/** The webhooks of the node's file, and what waits for their receivers. */
export async function reportWebhooks(client: Client): Promise<Report> {
  const { webhooks } = await client.listWebhooks();
  const rows = webhooks.map((hook) => [
    hook.name,
    String(hook.pending),
    hook.pending === 0 ? "" : agoOf(hook.waitedMs),
    hook.failures === 0 ? "" : String(hook.failures),
    hook.isKnown ? hook.url! : "not in the file: dropped after a day",
  ]);
  const disabled = webhooks.filter(({ disabledMs }) => disabledMs !== undefined);
  const failing = webhooks.filter(({ failures, disabledMs }) => failures > 0 && disabledMs === undefined);
  const lines = [
    ...table(["WEBHOOK", "WAITING", "SINCE", "FAILED", "URL"], rows),
    ...(webhooks.length === 0 ? ["The node has no webhooks: INTERLOCK_WEBHOOKS names their file."] : []),
    ...failing.map(({ name, reason }) => `${name} accepts no notices: ${reason}`),
    ...disabled.flatMap(({ name, disabledMs }) =>
      wrapToWidth(
        `${name} is disabled: its receiver answered 410, ${agoOf(disabledMs!)} ago. What waits is dropped when it is a day old. Enable it again: interlock webhooks enable ${name}`,
        WIDTH,
      ),
    ),
  ];
  return { facts: { webhooks }, lines: lines.map(fit), isFaulty: failing.length + disabled.length > 0 };
}

/** A webhook is sent to again. */
export async function reportWebhookEnabled(client: Client, name: string): Promise<Report> {
  const answer = await client.enableWebhook(name);
  const line = answer.wasDisabled ? `${name} is enabled, and what waits is sent` : `${name} was not disabled`;
  return { facts: answer, lines: [line], isFaulty: false };
}

/** How a webhook's receiver answers a test. */
export async function reportWebhookTest(client: Client, name: string): Promise<Report> {
  const answer = await client.testWebhook(name);
  const { isAccepted, status, reason, durationMs } = answer;
  const line = isAccepted
    ? `${name} accepted the test with status ${status}, in ${durationMs} ms`
    : `${name} did not accept the test: ${reason}`;
  return { facts: answer, lines: wrapToWidth(line, WIDTH), isFaulty: !isAccepted };
}

const ABSENT: Readonly<Record<HeardReport["roles"][number], string>> = {
  gateway: "clients are not answered",
  orchestrator: "no command is decided",
  worker: "agents do not answer",
};

/** A name's end tells the nodes of one machine or Deployment apart. A node of an older release has its id alone. */
function shortName({ name, node }: HeardReport): string {
  const shown = name ?? node.slice(0, 8);
  return shown.length > NODE_NAME ? `…${shown.slice(1 - NODE_NAME)}` : shown;
}

/** The runs of the metrics that wait for a worker. */
function unclaimedRuns(metrics: string): number {
  return Number(/^interlock_runs_waiting (\d+)$/m.exec(metrics)?.[1] ?? 0);
}

function sumOf(nodes: readonly HeardReport[]) {
  const sum = (count: (node: HeardReport) => number) => nodes.reduce((total, node) => total + count(node), 0);
  return {
    runs: {
      driven: sum(({ runs }) => runs.driven),
      held: sum(({ runs }) => runs.held),
      waiting: sum(({ runs }) => runs.waiting),
    },
    commands: sum(({ commandsWaiting }) => commandsWaiting),
  };
}

function stateOf({ available, external }: AgentView): string {
  if (!available) return "cannot answer";
  return external ? "external" : "";
}

/** `5s`, `3m`, `2h` or `4d`. */
export function agoOf(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m`;
  return seconds < 86_400 ? `${Math.floor(seconds / 3_600)}h` : `${Math.floor(seconds / 86_400)}d`;
}

/** The line without spaces at its end, and not wider than a report. */
export const fit = (line: string) => cutToWidth(line.trimEnd(), WIDTH);

/** Columns as wide as their widest cell; the last one is cut at the width of the screen. Empty columns are left out. */
export function table(heads: readonly string[], rows: readonly string[][]): string[] {
  const used = heads.map((_, column) => column).filter((column) => rows.some((cells) => cells[column] !== ""));
  const columns = rows.length === 0 ? heads.map((_, column) => column) : used;
  const widths = columns.map((column) =>
    Math.min(MAX_CELL, Math.max(...[heads, ...rows].map((cells) => widthOf(cells[column]!)))),
  );
  return [heads, ...rows].map((cells) =>
    columns
      .map((column, index) =>
        index === columns.length - 1 ? cells[column]! : fitToWidth(cells[column]!, widths[index]!) + GAP,
      )
      .join(""),
  );
}
