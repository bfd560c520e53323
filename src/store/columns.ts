/** The type of a column in PostgreSQL. SQLite stores text and integers. */
type SqlType = "text" | "bigint" | "integer";
type Columns = Readonly<Record<string, SqlType>>;

const EVENT = {
  floor_seq: "bigint",
  seq: "bigint",
  type: "text",
  request_id: "text",
  at: "bigint",
  json: "text",
} as const satisfies Columns;

/**
 * The columns that a commit sets from the values that it is given, by table. The statements of SQLite and the functions
 * of PostgreSQL are written from these lists, so that a column is named once. What a statement
 * computes, such as keys, is not in them.
 */
export const COLUMNS = {
  floors: {
    head: "bigint",
    format: "integer",
    flags: "text",
    reserved: "text",
    snapshot: "text",
    alarm: "bigint",
  },
  /** The indexed ones; the others of a session are `session_content`. */
  sessions: {
    state: "text",
    agent_id: "text",
    user_id: "text",
    owner_id: "text",
    workspace_id: "text",
    last_activity_at: "bigint",
    queued_at: "bigint",
    due_at: "bigint",
    /** When the newest of its failed runs failed. */
    failed_at: "bigint",
  },
  session_content: { head: "bigint", view: "text", memory: "text" },
  logs: { id: "text", stream: "text", text: "text", at: "bigint" },
  events: EVENT,
  effects: { id: "text", due_at: "bigint", payload: "text" },
  receipts: { caller: "text", command_id: "text", body_hash: "text", at: "bigint", reply: "text" },
  usage_keys: { day: "integer", owner_id: "text", agent_id: "text" },
  usage: { runs: "bigint", input: "bigint", output: "bigint", tokens: "bigint" },
  tombstones: { deleted_at: "bigint", ...EVENT },
} as const satisfies Record<string, Columns>;
type Listed = keyof typeof COLUMNS;

/** The values of a table's columns, by their names. Undefined: null. */
export type RowOf<T extends Listed> = {
  [Name in keyof (typeof COLUMNS)[T]]: (typeof COLUMNS)[T][Name] extends "text"
    ? string | undefined
    : number | undefined;
};

const NAMES = Object.fromEntries(Object.entries(COLUMNS).map(([table, columns]) => [table, Object.keys(columns)]));

/** The values of a table's columns for a statement of SQLite, in the order of the list. */
export const valuesOf = <T extends Listed>(table: T, row: RowOf<T>): (string | number | null)[] =>
  NAMES[table]!.map((name) => (row as Record<string, string | number | undefined>)[name] ?? null);

/**
 * SQL with each `{{table: form}}` replaced by the table's columns, each written as in `form`. There `$name` is its
 * name, `$field` that in camel case, and `$type` its type in PostgreSQL.
 */
export const withColumns = (sql: string): string =>
  sql.replaceAll(/\{\{(\w+): ([^}]*)\}\}/g, (_, table: Listed, form: string) =>
    Object.entries(COLUMNS[table])
      .map(([name, type]) => {
        const field = name.replaceAll(/_(.)/g, (__, letter: string) => letter.toUpperCase());
        return form.replaceAll("$name", name).replace("$field", field).replace("$type", type);
      })
      .join(", "),
  );
