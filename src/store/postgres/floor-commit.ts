import type { MessageId, SessionId } from "../../protocol/ids.ts";
import { floorHash } from "../../protocol/internal/hash.ts";
import { flow } from "../../shared/flow.ts";
import { cleanText } from "../../shared/text.ts";
import {
  detailsOf,
  eventRowOf,
  floorRowOf,
  logRowOf,
  receiptRowOf,
  runRequestRowOf,
  tombstoneRowOf,
  usageRowOf,
} from "../rows.ts";
import { tsVector, wordsOf } from "../search-words.ts";
import type { BudgetCount, CommitOutcome, FloorChange, MessageWrite, OverBudget } from "../store.ts";
import { type Database, StatementRefused } from "./connections/connection-pool.ts";

const COMMIT = { name: "commit", text: "SELECT commit_floor($1) AS done" };
const COMMIT_BOTH = { name: "commit-both", text: "SELECT commit_both($1) AS done" };
const COMMIT_COUNTED = { name: "commit-counted", text: "SELECT commit_counted($1, $2) AS over" };
const COMMIT_ALL = { name: "commit-all", text: "SELECT commit_floors($1) AS done" };
const CONTENTS = {
  name: "contents",
  text: `
    SELECT s.id AS "sessionId", m.id, m.content
    FROM unnest($1::text[], $2::text[]) AS key (session_id, id)
    JOIN sessions s ON s.id = key.session_id JOIN messages m ON m.session_key = s.session_key AND m.id = key.id`,
};

/** The final text of a message whose write contains only part of it. */
type Contents = ReadonlyMap<MessageWrite, string>;
const NO_CONTENTS: Contents = new Map();

/**
 * Commits changes of floors: each alone, or several with one statement. Both are one round trip and one transaction.
 */
export class FloorCommit {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  /**
   * Commit one change, without other floors (rule C5).
   * @throws AppError `unavailable`: whether it was committed is unknown
   * @throws StatementRefused the change refers to a missing row; nothing was done
   */
  async commit(change: FloorChange): Promise<CommitOutcome> {
    try {
      try {
        return await this.#write(change, NO_CONTENTS);
      } catch (error) {
        if (!isRefused(error, "wordless")) throw error;
        // Rows read here belong to the version that the change is based on, or the change is a conflict.
        return await this.#write(change, await this.#contentsAfter(change));
      }
    } catch (error) {
      if (isRefused(error, "taken")) return "conflict";
      throw error;
    }
  }

  /**
   * Commit changes of different floors with one statement. A conflict of one leaves the others as they are.
   * @param changes in the order of their floors' ids, so that two nodes' groups lock floors in the same order
   * @param until when the answer is no longer waited for, in ms of the clock
   * @returns the outcomes in the same order; undefined: nothing was done, because one of them failed or had to wait for
   *   another transaction, and each is to be committed alone
   * @throws AppError `unavailable`: whether they were committed is unknown
   */
  async commitAll(changes: readonly FloorChange[], until: number): Promise<CommitOutcome[] | undefined> {
    flow.onHop?.("postgres", `${changes.length} floors together`);
    const rows = listOf(changes.map((change) => changeRows(change, NO_CONTENTS)));
    const [row] = await this.#db.query<{ done: boolean[] | null }>(COMMIT_ALL, [rows], until);
    return row!.done?.map(outcomeOf);
  }

  async #write(change: FloorChange, contents: Contents): Promise<CommitOutcome> {
    flow.onHop?.("postgres", change.floorId);
    const { along, budgets } = change;
    if (budgets) return await this.#writeCounted(change, budgets, contents);
    const [statement, rows] = along
      ? [COMMIT_BOTH, [change, along].toSorted(byFloor).map((each) => changeRows(each, contents))]
      : [COMMIT, changeRows(change, contents)];
    const [row] = await this.#db.query<{ done: boolean }>(statement, [cleanJson(rows)]);
    return outcomeOf(row!.done);
  }

  async #writeCounted(
    change: FloorChange,
    budgets: readonly BudgetCount[],
    contents: Contents,
  ): Promise<CommitOutcome> {
    const changes = [change, ...(change.along ? [change.along] : [])].toSorted(byFloor);
    const counts = budgets.map(({ scope, ownerId, withinMs, time, add, max }) => {
      return { scope, owner_id: ownerId, within: withinMs, at: time, add, max };
    });
    const rows = changes.map((each) => changeRows(each, contents));
    const [row] = await this.#db.query<{ over: OverBudget["over"] | null }>(COMMIT_COUNTED, [
      cleanJson(counts),
      cleanJson(rows),
    ]);
    return row!.over ? { over: row!.over } : "committed";
  }

  async #contentsAfter({ messages: own, along }: FloorChange): Promise<Contents> {
    const messages = [...own, ...(along?.messages ?? [])];
    const partial = messages.filter((write) => write.kind === "append" || write.kind === "status");
    const sessionIds = partial.map(({ sessionId }) => sessionId);
    const ids = partial.map(({ id }) => id);
    const stored = await this.#db.query<{ sessionId: SessionId; id: MessageId; content: string }>(CONTENTS, [
      sessionIds,
      ids,
    ]);
    const texts = new Map(stored.map(({ sessionId, id, content }) => [keyOf(sessionId, id), content]));
    const contents = new Map<MessageWrite, string>();
    for (const write of messages) {
      if ("message" in write) texts.set(keyOf(write.message.sessionId, write.message.id), write.message.content);
      else {
        const key = keyOf(write.sessionId, write.id);
        const text = (texts.get(key) ?? "") + (write.kind === "append" ? write.text : "");
        texts.set(key, text);
        contents.set(write, text);
      }
    }
    return contents;
  }
}

/** The order in which floors are locked, at every node. */
export const byFloor = (one: Pick<FloorChange, "floorId">, other: Pick<FloorChange, "floorId">): number =>
  one.floorId < other.floorId ? -1 : 1;

const keyOf = (sessionId: SessionId, id: MessageId): string => `${sessionId}/${id}`;

function isRefused(error: unknown, fault: StatementRefused["fault"]): boolean {
  return error instanceof StatementRefused && error.fault === fault;
}

const outcomeOf = (isDone: boolean): CommitOutcome => (isDone ? "committed" : "conflict");

/** A change as `commit_floor` takes it: each table's rows are a list, null if there are none. */
function changeRows(change: FloorChange, contents: Contents) {
  const { floorId, expected, newIds, runRequestsRemoved } = change;
  const hash = floorHash(floorId);
  return {
    floor_id: floorId,
    floor_hash: hash,
    expected,
    ...floorRowOf(change),
    sessions: orNull(change.sessions.map(({ text, ...row }) => ({ ...row, words: tsVector(wordsOf(text)) }))),
    messages: orNull(change.messages.map((write) => messageRow(write, contents))),
    logs: orNull(
      change.logs.map((log) => ({ session_id: log.sessionId, message_id: log.messageId, ...logRowOf(log) })),
    ),
    events: orNull(change.events.map((event) => ({ session_id: event.sessionId, ...eventRowOf(event) }))),
    effects_removed: orNull(runRequestsRemoved),
    effects_added: orNull(change.runRequestsAdded.map((each) => ({ floor_hash: hash, ...runRequestRowOf(each) }))),
    receipts: orNull(change.receipts.map(receiptRowOf)),
    deleted: orNull(change.deleted.map((gone) => ({ session_id: gone.sessionId, ...tombstoneRowOf(gone) }))),
    notices: orNull(
      (change.notices ?? []).map(({ id, hook, subject, at, payload }) => ({ id, hook, subject, at, payload })),
    ),
    new_ids: orNull(newIds),
    adopted: orNull(
      (change.staged ?? []).map(({ sessionId, stagedAs }) => ({ session_id: sessionId, staged_as: stagedAs })),
    ),
    usage: orNull((change.usage ?? []).map(usageRowOf)),
  };
}

const orNull = <Row>(rows: Row[]): Row[] | null => (rows.length === 0 ? null : rows);

/** A message is searchable once it is complete. */
function messageRow(write: MessageWrite, contents: Contents) {
  if ("message" in write) {
    const { kind, message } = write;
    const { sessionId, id, status, content, images } = message;
    return {
      ...{ kind, session_id: sessionId, id, status, details: detailsOf(message), content },
      words: status === "running" ? undefined : tsVector(wordsOf(content)),
      images: images?.map(({ hash }) => hash),
    };
  }
  const { kind, sessionId, id } = write;
  const known = contents.get(write);
  return {
    ...{ kind, session_id: sessionId, id },
    status: kind === "status" ? write.status : undefined,
    content: kind === "append" ? write.text : undefined,
    words: known === undefined ? undefined : tsVector(wordsOf(known)),
  };
}

/** Characters that JSON allows and PostgreSQL's text does not: NUL, and lone surrogates. */
const FORBIDDEN = /\\u(?:0000|d)/;

/** Rows as JSON; null for none. */
export const listOf = (rows: readonly object[]): string | null => (rows.length === 0 ? null : cleanJson(rows));

/** The edges refuse invalid characters; any that remain are replaced. */
function cleanJson(value: object): string {
  const json = JSON.stringify(value);
  if (!FORBIDDEN.test(json)) return json;
  return JSON.stringify(value, (_, each) => (typeof each === "string" ? cleanText(each) : each));
}
