-- Times are ms since 1970. Rows refer to one another by integer keys; ids as clients know them stand once, in the row
-- they name. Every index serves a query of src/store; test/contract/sqlite/sqlite.test.ts looks at their plans.

PRAGMA application_id = 0x464c6f72;

-- What this store is: one row.
CREATE TABLE meta (
  id         INTEGER PRIMARY KEY CHECK (id = 1),
  epoch      TEXT    NOT NULL,
  secret     TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  -- The sum of the wall clock's jumps: by as much the floors' time, in which deadlines are, is behind it.
  jumped_ms  INTEGER NOT NULL DEFAULT 0,
  -- Until when nothing may be pruned because the clock jumped, in ms since 1970: it outlives the process that saw the jump.
  doubt_until         INTEGER NOT NULL DEFAULT 0,
  -- Rises with each change of a definition, so that nodes notice one by reading a single row.
  definitions_version INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Never deleted, and a version never starts again.
CREATE TABLE floors (
  floor_key INTEGER PRIMARY KEY,
  id        TEXT    NOT NULL UNIQUE,
  version   INTEGER NOT NULL,
  head      INTEGER NOT NULL,
  -- Events at or below are pruned.
  low_water INTEGER NOT NULL DEFAULT 0,
  format    INTEGER NOT NULL,
  -- The floor's earliest deadline, in its time.
  alarm     INTEGER,
  -- The hash by which nodes divide the floors.
  partition INTEGER NOT NULL DEFAULT 0,
  flags     TEXT    NOT NULL,
  snapshot  TEXT    NOT NULL,
  -- The session for which the floor is reserved, as JSON.
  reserved  TEXT
) STRICT;
CREATE INDEX floors_by_alarm ON floors (alarm, id) WHERE alarm IS NOT NULL;
-- Receipts of writes that belong to no floor, and staged sessions, name this one. Its empty id comes before every other, so
-- no list shows it.
INSERT INTO floors (floor_key, id, version, head, format, flags, snapshot) VALUES (0, '', 0, 0, 0, '{}', '{}');

-- What a query filters or sorts by is a column; `view` is the session as answers show it, whole.
CREATE TABLE sessions (
  session_key      INTEGER PRIMARY KEY,
  id               TEXT    NOT NULL UNIQUE,
  floor_key        INTEGER NOT NULL REFERENCES floors,
  state            TEXT    NOT NULL,
  agent_id         TEXT    NOT NULL,
  user_id          TEXT,
  owner_id         TEXT,
  workspace_id     TEXT,
  last_activity_at INTEGER NOT NULL,
  -- Its earliest deadline, in its floor's time.
  due_at           INTEGER,
  queued_at        INTEGER,
  -- 0 while it holds its floor, -1 while it is ducked; while it is paused, the place in the floor's log where it was paused.
  standing         INTEGER,
  head             INTEGER NOT NULL,
  low_water        INTEGER NOT NULL DEFAULT 0,
  -- When the oldest event that is still there happened.
  oldest_at        INTEGER,
  view             TEXT    NOT NULL,
  memory           TEXT    NOT NULL
) STRICT;
CREATE INDEX sessions_by_activity ON sessions (last_activity_at, state, agent_id, workspace_id);
CREATE INDEX sessions_by_user ON sessions (user_id, last_activity_at, state) WHERE user_id IS NOT NULL;
CREATE INDEX sessions_by_owner ON sessions (owner_id, last_activity_at, state) WHERE owner_id IS NOT NULL;
CREATE INDEX sessions_standing ON sessions (floor_key, standing) WHERE standing IS NOT NULL;
CREATE INDEX sessions_queued ON sessions (floor_key, queued_at) WHERE queued_at IS NOT NULL;
-- A history that is being copied or imported belongs to a staged session: a row of state 'staged' on floor 0, with an id
-- that no client can name. The commit that makes the session renames that row, however many messages it has.
CREATE INDEX sessions_staged ON sessions (last_activity_at) WHERE state = 'staged';
CREATE INDEX sessions_due ON sessions (floor_key, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX sessions_to_prune ON sessions (oldest_at) WHERE state = 'archived' AND oldest_at IS NOT NULL;

-- In the order of their keys. `details` is all of a message that has no column, as JSON.
CREATE TABLE messages (
  message_key INTEGER PRIMARY KEY,
  session_key INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
  floor_key   INTEGER NOT NULL,
  id          TEXT    NOT NULL,
  status      TEXT    NOT NULL,
  details     TEXT    NOT NULL,
  content     TEXT    NOT NULL,
  UNIQUE (session_key, id)
) STRICT;
CREATE INDEX messages_in_order ON messages (session_key);
CREATE INDEX messages_running ON messages (floor_key) WHERE status = 'running';

CREATE TABLE message_logs (
  log_key     INTEGER PRIMARY KEY,
  message_key INTEGER NOT NULL REFERENCES messages ON DELETE CASCADE,
  id          TEXT    NOT NULL,
  stream      TEXT    NOT NULL,
  text        TEXT    NOT NULL,
  at          INTEGER NOT NULL,
  UNIQUE (message_key, id)
) STRICT;
CREATE INDEX message_logs_in_order ON message_logs (message_key);

-- One row with a place in its floor's log and, unless it is the floor's alone, one in its session's. The key is the
-- floor's key and the place in its log in one number (floor_key << 32 | floor_seq), so that a floor's log lies together
-- and needs no index. The text of a message is kept once: its event says where in the JSON it goes (text_at, in UTF-16
-- units) and leaves it out. The writer deletes a session's events: a foreign key would need an index.
CREATE TABLE events (
  event_key   INTEGER PRIMARY KEY,
  session_key INTEGER,
  seq         INTEGER,
  type        TEXT    NOT NULL,
  request_id  TEXT,
  at          INTEGER NOT NULL,
  -- Null when it is large: see event_blobs.
  json        TEXT,
  message_key INTEGER REFERENCES messages,
  text_at     INTEGER
) STRICT;
CREATE INDEX events_of_message ON events (message_key) WHERE message_key IS NOT NULL;

CREATE TABLE event_blobs (
  event_key INTEGER PRIMARY KEY REFERENCES events ON DELETE CASCADE,
  json      TEXT    NOT NULL
) STRICT;

-- A floor's log is divided into blocks of 32 places; a block's number is event_key >> 5. Two tables say which blocks hold
-- events of a session, each with the session's first place in it, and which hold decisions of the arbiter: a commit writes
-- fewer pages for them than for two indexes with an entry for each event.
CREATE TABLE session_blocks (
  session_key INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
  seq         INTEGER NOT NULL,
  block       INTEGER NOT NULL,
  PRIMARY KEY (session_key, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE decision_blocks (block INTEGER PRIMARY KEY) STRICT;

-- Work that is wanted. `payload` is what its kind has beside the columns.
CREATE TABLE effects (
  id        TEXT    PRIMARY KEY,
  partition INTEGER NOT NULL,
  floor_key INTEGER NOT NULL REFERENCES floors,
  due_at    INTEGER NOT NULL,
  payload   TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX effects_due ON effects (due_at);

-- In the order of their keys they were made, so the oldest come first.
CREATE TABLE receipts (
  receipt_key INTEGER PRIMARY KEY,
  caller      TEXT    NOT NULL,
  command_id  TEXT    NOT NULL,
  floor_key   INTEGER NOT NULL REFERENCES floors,
  body_hash   TEXT    NOT NULL,
  at          INTEGER NOT NULL,
  reply       TEXT    NOT NULL,
  UNIQUE (caller, command_id)
) STRICT;

-- Deleted sessions with their last event, for late readers.
CREATE TABLE tombstones (
  session_id TEXT    PRIMARY KEY,
  floor_key  INTEGER NOT NULL REFERENCES floors,
  owner_id   TEXT,
  deleted_at INTEGER NOT NULL,
  floor_seq  INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  type       TEXT    NOT NULL,
  request_id TEXT,
  at         INTEGER NOT NULL,
  json       TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tombstones_on_floor ON tombstones (floor_key, floor_seq);
CREATE INDEX tombstones_by_time ON tombstones (deleted_at);

-- `binding` is all of a connection that has no column, as JSON.
CREATE TABLE connections (
  id         TEXT    PRIMARY KEY,
  version    INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  binding    TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX connections_by_expiry ON connections (expires_at);

-- A blob may be put before its session is: it names it by id.
CREATE TABLE blobs (
  blob_key   INTEGER PRIMARY KEY,
  session_id TEXT    NOT NULL,
  hash       TEXT    NOT NULL,
  mime_type  TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  -- Messages that show it; kept by the triggers below.
  uses       INTEGER NOT NULL DEFAULT 0,
  bytes      BLOB    NOT NULL,
  UNIQUE (session_id, hash)
) STRICT;
CREATE INDEX blobs_unused ON blobs (created_at) WHERE uses = 0;

-- No foreign key to blobs: that would need an index here, and a blob in use is never deleted.
CREATE TABLE message_blobs (
  message_key INTEGER NOT NULL REFERENCES messages ON DELETE CASCADE,
  blob_key    INTEGER NOT NULL,
  PRIMARY KEY (message_key, blob_key)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER blob_used AFTER INSERT ON message_blobs BEGIN
  UPDATE blobs SET uses = uses + 1 WHERE blob_key = new.blob_key;
END;
CREATE TRIGGER blob_released AFTER DELETE ON message_blobs BEGIN
  UPDATE blobs SET uses = uses - 1 WHERE blob_key = old.blob_key;
END;

-- Words as src/store/search-words.ts makes them, which is why the tokenizer only has to split at spaces.
CREATE VIRTUAL TABLE session_words USING fts5 (words, content = '', contentless_delete = 1, tokenize = 'ascii');
CREATE VIRTUAL TABLE message_words USING fts5 (words, content = '', contentless_delete = 1, tokenize = 'ascii');
CREATE TRIGGER session_words_gone AFTER DELETE ON sessions BEGIN
  DELETE FROM session_words WHERE rowid = old.session_key;
END;
CREATE TRIGGER message_words_gone AFTER DELETE ON messages BEGIN
  DELETE FROM message_words WHERE rowid = old.message_key;
END;

-- Agents that operators define for a workspace. `body` is what the definition says, as JSON; nothing in it is executed.
CREATE TABLE agent_definitions (
  id      TEXT    PRIMARY KEY,
  version INTEGER NOT NULL,
  body    TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
