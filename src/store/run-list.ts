import { sessionOfRow, type ViewRow } from "./rows.ts";
import type { StoredRunPage, StoredRunQuery } from "./store.ts";

export interface RunListRow extends ViewRow {
  memory: string;
  at: number;
}

export const weightOfRunRow = ({ view, memory }: RunListRow): number =>
  Buffer.byteLength(view) + Buffer.byteLength(memory);

export const runListPage = ({ page, hasMore }: { page: RunListRow[]; hasMore: boolean }): StoredRunPage => ({
  sessions: page.map(({ memory, at, ...row }) => ({ session: sessionOfRow(row), memory, at: Number(at) })),
  hasMore,
});

/**
 * SQL of every store: which sessions a list of runs has, and their order.
 * @param put a value's place in the statement
 * @param placeOf the place of a text in another one, 0 if it is not there
 */
export function runListCondition(
  { kind, ownerId, userId, runId, from, to, after }: StoredRunQuery,
  put: (value: string | number) => string,
  placeOf: (text: string, part: string) => string,
): { column: string; where: string; order: string } {
  const [column, direction, beyond] = kind === "failed" ? ["failed_at", "DESC", "<"] : ["runs_at", "ASC", ">"];
  const conditions = [`${column} IS NOT NULL`];
  // Not by the indexes of owners and users, which have all their sessions: those with runs are fewer, and in order.
  if (ownerId !== undefined) conditions.push(`coalesce(owner_id, '') = ${put(ownerId)}`);
  if (userId !== undefined) conditions.push(`coalesce(user_id, '') = ${put(userId)}`);
  if (from !== undefined) conditions.push(`${column} >= ${put(from)}`);
  if (to !== undefined) conditions.push(`${column} <= ${put(to)}`);
  if (after) conditions.push(`(${column}, id) ${beyond} (${put(after.at)}, ${put(after.sessionId)})`);
  // Ids need no escapes in JSON.
  if (runId !== undefined) conditions.push(`${placeOf("memory", put(`"${runId}"`))} > 0`);
  return { column: column!, where: conditions.join(" AND "), order: `${column} ${direction}, id ${direction}` };
}
