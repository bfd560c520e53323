-- Times are ms since 1970. Rows refer to one another by integer keys; ids as clients know them stand once, in the row
-- they name. Every index serves a query of src/store; test/contract/postgres/postgres-plans.test.ts looks at their plans. What is
-- JSON is kept as text: nothing in here looks into it, and an event must come back byte for byte. Ids are compared as
-- bytes, whatever the database's locale.

-- An operator may have made it for a role that may not.
DO $$ BEGIN
  IF to_regnamespace('interlock') IS NULL THEN CREATE SCHEMA interlock; END IF;
END $$;

-- How far this schema is; see src/store/postgres/schema.ts.
CREATE TABLE migrations (
  version    integer     PRIMARY KEY,
  name       text        NOT NULL,
  -- Of its statements: a store whose digest is another one was made by another checkout.
  digest     text,
  applied_at timestamptz NOT NULL DEFAULT now()
);
-- The functions in the folder `functions` as they were applied last: a file is applied again when its digest differs.
CREATE TABLE functions (
  name   text COLLATE "C" PRIMARY KEY,
  digest text NOT NULL
);

-- What this store is: one row.
CREATE TABLE meta (
  id         integer PRIMARY KEY CHECK (id = 1),
  epoch      text    NOT NULL,
  secret     text    NOT NULL,
  created_at bigint  NOT NULL,
  -- The sum of the wall clock's jumps: by as much the floors' time, in which deadlines are, is behind it.
  jumped_ms  bigint NOT NULL DEFAULT 0,
  -- The epoch whose last commits a promoted standby lacked. While it is the present one, no node uses this store.
  lost       text,
  -- The epoch and the server's timeline with which a node used this store last: a promotion begins a new timeline.
  timeline   text,
  -- Until when nothing may be pruned because the clock jumped, in ms since 1970: it outlives the process that saw the jump.
  doubt_until         bigint NOT NULL DEFAULT 0,
  -- Rises with each change of a definition, so that nodes notice one by reading a single row.
  definitions_version bigint NOT NULL DEFAULT 0
);

-- Never deleted, and a version never starts again. Every commit writes its floor's row anew: room is left on the page
-- for the next versions of it, so that no index has to learn of them.
CREATE TABLE floors (
  floor_key bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id        text    COLLATE "C" NOT NULL UNIQUE,
  version   bigint  NOT NULL,
  head      bigint  NOT NULL,
  -- Events at or below are pruned.
  low_water bigint  NOT NULL DEFAULT 0,
  format    integer NOT NULL,
  -- The floor's earliest deadline, in its time.
  alarm     bigint,
  -- The hash by which nodes divide the floors.
  partition smallint NOT NULL DEFAULT 0,
  flags     text    NOT NULL,
  snapshot  text    NOT NULL,
  -- The session for which the floor is reserved, as JSON.
  reserved  text
) WITH (fillfactor = 50);
CREATE INDEX floors_by_alarm ON floors (alarm, id) WHERE alarm IS NOT NULL;
-- Receipts of writes that belong to no floor, and staged sessions, name this one. Its empty id comes before every other, so
-- no list shows it.
INSERT INTO floors (floor_key, id, version, head, format, flags, snapshot) OVERRIDING SYSTEM VALUE
  VALUES (0, '', 0, 0, 0, '{}', '{}');

-- What a query filters or sorts by is a column; `view` is the session as answers show it, whole.
CREATE TABLE sessions (
  session_key      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id               text   COLLATE "C" NOT NULL UNIQUE,
  floor_key        bigint NOT NULL,
  state            text   COLLATE "C" NOT NULL,
  agent_id         text   COLLATE "C" NOT NULL,
  user_id          text   COLLATE "C",
  owner_id         text   COLLATE "C",
  workspace_id     text   COLLATE "C",
  last_activity_at bigint NOT NULL,
  -- Its earliest deadline, in its floor's time.
  due_at           bigint,
  queued_at        bigint,
  -- 0 while it holds its floor, -1 while it is ducked; while it is paused, the place in the floor's log where it was paused.
  standing         bigint,
  head             bigint NOT NULL,
  low_water        bigint NOT NULL DEFAULT 0,
  -- When the oldest event that is still there happened.
  oldest_at        bigint,
  view             text   NOT NULL,
  memory           text   NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX sessions_by_activity ON sessions (last_activity_at, session_key) INCLUDE (state, agent_id, workspace_id);
CREATE INDEX sessions_by_user ON sessions (user_id, last_activity_at, session_key) INCLUDE (state)
  WHERE user_id IS NOT NULL;
CREATE INDEX sessions_by_owner ON sessions (owner_id, last_activity_at, session_key) INCLUDE (state)
  WHERE owner_id IS NOT NULL;
CREATE INDEX sessions_standing ON sessions (floor_key, standing) WHERE standing IS NOT NULL;
CREATE INDEX sessions_queued ON sessions (floor_key, queued_at) WHERE queued_at IS NOT NULL;
-- A history that is being copied or imported belongs to a staged session: a row of state 'staged' on floor 0, with an id
-- that no client can name. The commit that makes the session renames that row, however many messages it has.
CREATE INDEX sessions_staged ON sessions (last_activity_at) WHERE state = 'staged';
CREATE INDEX sessions_due ON sessions (floor_key, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX sessions_to_prune ON sessions (oldest_at) WHERE state = 'archived' AND oldest_at IS NOT NULL;

-- Apart from the sessions, whose rows are written with every commit while their words hardly ever change. Words are
-- those of src/store/search-words.ts, with their places: no parser and no dictionary of the database has a say in them.
CREATE TABLE session_words (
  session_key bigint   PRIMARY KEY REFERENCES sessions ON DELETE CASCADE,
  words       tsvector NOT NULL
);
CREATE INDEX session_words_found ON session_words USING gin (words) WITH (gin_pending_list_limit = 512);

-- In the order of their keys. `details` is all of a message that has no column, as JSON. `words` are there as soon as it
-- is no longer being written.
CREATE TABLE messages (
  message_key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  session_key bigint NOT NULL REFERENCES sessions ON DELETE CASCADE,
  floor_key   bigint NOT NULL,
  id          text   COLLATE "C" NOT NULL,
  status      text   COLLATE "C" NOT NULL,
  details     text   NOT NULL,
  content     text   NOT NULL,
  words       tsvector,
  UNIQUE (session_key, id)
) WITH (fillfactor = 90);
CREATE INDEX messages_in_order ON messages (session_key, message_key);
CREATE INDEX messages_running ON messages (floor_key, message_key) WHERE status = 'running';
CREATE INDEX messages_found ON messages USING gin (words) WITH (gin_pending_list_limit = 512);

-- What belongs to a message goes with its session by one deletion per table, not by one per message.
CREATE TABLE message_logs (
  session_key bigint NOT NULL REFERENCES sessions ON DELETE CASCADE,
  message_key bigint NOT NULL,
  log_key     bigint GENERATED ALWAYS AS IDENTITY,
  id          text   COLLATE "C" NOT NULL,
  stream      text   NOT NULL,
  text        text   NOT NULL,
  at          bigint NOT NULL,
  PRIMARY KEY (session_key, message_key, log_key),
  UNIQUE (session_key, message_key, id)
);

-- One row with a place in its floor's log and, unless it is the floor's alone, one in its session's.
CREATE TABLE events (
  floor_key   bigint NOT NULL,
  floor_seq   bigint NOT NULL,
  session_key bigint REFERENCES sessions ON DELETE CASCADE,
  seq         bigint,
  type        text   COLLATE "C" NOT NULL,
  request_id  text,
  at          bigint NOT NULL,
  json        text   NOT NULL,
  PRIMARY KEY (floor_key, floor_seq),
  CHECK ((session_key IS NULL) = (seq IS NULL))
);
CREATE UNIQUE INDEX events_of_session ON events (session_key, seq) WHERE session_key IS NOT NULL;
CREATE INDEX events_decisions ON events (floor_key, floor_seq) WHERE type = 'arbitration';

-- Work that is wanted. `payload` is what its kind has beside the columns.
CREATE TABLE effects (
  id        text     COLLATE "C" PRIMARY KEY,
  partition smallint NOT NULL,
  floor_key bigint   NOT NULL,
  due_at    bigint   NOT NULL,
  payload   text     NOT NULL
);
CREATE INDEX effects_due ON effects (due_at, id);

CREATE TABLE receipts (
  caller     text   COLLATE "C" NOT NULL,
  command_id text   COLLATE "C" NOT NULL,
  floor_key  bigint NOT NULL,
  body_hash  text   NOT NULL,
  at         bigint NOT NULL,
  reply      text   NOT NULL,
  PRIMARY KEY (caller, command_id)
);
CREATE INDEX receipts_by_time ON receipts (at);

-- Deleted sessions with their last event, for late readers.
CREATE TABLE tombstones (
  session_id text   COLLATE "C" PRIMARY KEY,
  floor_key  bigint NOT NULL,
  owner_id   text,
  deleted_at bigint NOT NULL,
  floor_seq  bigint NOT NULL,
  seq        bigint NOT NULL,
  type       text   NOT NULL,
  request_id text,
  at         bigint NOT NULL,
  json       text   NOT NULL
);
CREATE INDEX tombstones_on_floor ON tombstones (floor_key, floor_seq);
CREATE INDEX tombstones_by_time ON tombstones (deleted_at);

-- `binding` is all of a connection that has no column, as JSON.
CREATE TABLE connections (
  id         text   COLLATE "C" PRIMARY KEY,
  version    bigint NOT NULL,
  expires_at bigint NOT NULL,
  binding    text   NOT NULL
);
CREATE INDEX connections_by_expiry ON connections (expires_at);

-- A blob may be put before its session is: it names it by id.
CREATE TABLE blobs (
  blob_key   bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  session_id text    COLLATE "C" NOT NULL,
  hash       text    COLLATE "C" NOT NULL,
  mime_type  text    NOT NULL,
  created_at bigint  NOT NULL,
  -- Messages that show it.
  uses       integer NOT NULL DEFAULT 0,
  bytes      bytea   NOT NULL,
  UNIQUE (session_id, hash)
);
CREATE INDEX blobs_unused ON blobs (created_at) WHERE uses = 0;

CREATE TABLE message_blobs (
  session_key bigint NOT NULL REFERENCES sessions ON DELETE CASCADE,
  message_key bigint NOT NULL,
  blob_key    bigint NOT NULL,
  PRIMARY KEY (session_key, message_key, blob_key)
);

-- Agents that operators define for a workspace. `body` is what the definition says, as JSON; nothing in it is executed.
CREATE TABLE agent_definitions (
  id      text   COLLATE "C" PRIMARY KEY,
  version bigint NOT NULL,
  body    text   NOT NULL
);
