import type { Client, RunQuery } from "../client/client.ts";
import type { ListedRun, ListedRunState } from "../protocol/listed-run.ts";
import { agoOf, fit, type Report, table, WIDTH } from "./reports.ts";
import { wrapToWidth } from "./text-width.ts";

/** The maximum number of runs on one page. */
const PAGE = 500;

export interface RunsQuery {
  state?: ListedRunState | undefined;
  user?: string | undefined;
  agent?: string | undefined;
  /** The least and the greatest age, in ms. */
  older?: number | undefined;
  newer?: number | undefined;
  /** The maximum number of unfinished runs, and of failed ones. */
  limit: number;
}

const STATES: Readonly<Record<ListedRunState, string>> = {
  waits_for_floor: "waits for floor",
  waits_for_turn: "waits for turn",
  waits_for_worker: "waits for worker",
  driven: "driven",
  held: "held",
  waits_for_person: "waits for person",
  failed: "failed",
};

/** The runs that have not ended, and those that failed, or only those of one state. */
export async function reportRuns(client: Client, query: RunsQuery, now: number): Promise<Report> {
  const { state, limit } = query;
  const unfinished = state === "failed" ? NONE : await readRuns(client, query, state);
  const failed = state === undefined || state === "failed" ? await readRuns(client, query, "failed") : NONE;
  const rows = unfinished.runs.map((run) => [
    run.id,
    STATES[run.state],
    agoOf(now - run.at),
    run.agentId,
    run.userId ?? "",
    detailOf(run, now),
  ]);
  const more = [unfinished, failed].some(({ hasMore }) => hasMore);
  const lines = [
    ...(state === "failed" ? [] : table(["RUN", "STATE", "AGE", "AGENT", "USER", ""], rows)),
    ...(failed.runs.length > 0 && state !== "failed" ? [""] : []),
    ...(failed.runs.length > 0 || state === "failed" ? failedLines(failed.runs, now) : []),
    ...(more ? ["", `${limit} of more runs: --limit shows more`] : []),
  ];
  return { facts: { runs: unfinished.runs, failed: failed.runs }, lines: lines.map(fit) };
}

/** Cancel a run. */
export async function reportCancelled(client: Client, id: string): Promise<Report> {
  const { sessionId } = await client.cancelRun(id);
  return { facts: { id, sessionId }, lines: [`the run ${id} of session ${sessionId} is cancelled`] };
}

const NONE = { runs: [] as ListedRun[], hasMore: false };

async function readRuns(client: Client, { user, agent, older, newer, limit }: RunsQuery, state?: ListedRunState) {
  const query: RunQuery = {
    ...(state && { state }),
    ...(user && { userId: user }),
    ...(agent && { agentId: agent }),
    ...(older !== undefined && { minAgeMs: older }),
    ...(newer !== undefined && { maxAgeMs: newer }),
    limit: Math.min(PAGE, limit),
  };
  const runs: ListedRun[] = [];
  let after: string | undefined;
  do {
    const page = await client.listRuns({ ...query, ...(after !== undefined && { after }) });
    runs.push(...page.runs);
    after = page.next;
  } while (after !== undefined && runs.length < limit);
  const hasMore = after !== undefined || runs.length > limit;
  return { runs: runs.slice(0, limit), hasMore };
}

/** What a run's state does not say: where it is, why it begins again, and what it asks. */
function detailOf({ worker, claimedAt, attempt, again, asks = [], purpose }: ListedRun, now: number): string {
  const parts = [
    ...(purpose ? [purpose] : []),
    ...(again ? [`attempt ${attempt}, after ${again.after}${nextText(again, now)}`] : []),
    ...asks.map(({ kind, tool, isStill }) => {
      return (kind === "confirmation" ? `consent to ${tool}` : kind) + (isStill ? ", unheard" : "");
    }),
    ...(claimedAt === undefined ? [] : [`${worker ?? "a worker"} for ${agoOf(now - claimedAt)}`]),
  ];
  return parts.join("; ");
}

const nextText = ({ nextAt = 0 }: { nextAt?: number | undefined }, now: number): string =>
  nextAt > now ? `, again in ${agoOf(nextAt - now)}` : "";

function failedLines(runs: readonly ListedRun[], now: number): string[] {
  const rows = runs.map(({ sessionId, at, agentId, userId = "", failure, isFollowed }) => {
    return [sessionId, agoOf(now - at), agentId, userId, failure!.errorCode, isFollowed ? "a turn" : ""];
  });
  const [head, ...found] = table(["FAILED SESSION", "AGO", "AGENT", "USER", "CODE", "SINCE"], rows);
  return [
    head!,
    ...found.flatMap((line, index) => [
      line,
      ...wrapToWidth(runs[index]!.failure!.message, WIDTH - INDENT.length).map((text) => INDENT + text),
    ]),
  ];
}

const INDENT = "  ";
