-- Times are ms since 1970. Rows refer to one another by integer keys; ids as clients know them stand once, in the row
-- they name. Every index serves a query of src/store; test/contract/postgres/postgres-plans.test.ts looks at their plans. What is
-- JSON is kept as text: nothing in here looks into it, and an event must come back byte for byte. Ids are compared as
-- bytes, whatever the database's locale.

-- An operator may have made it for a role that may not.
DO $$ BEGIN
  IF to_regnamespace('interlock') IS NULL THEN CREATE SCHEMA interlock; END IF;
END $$;

-- How far this schema is; see src/store/postgres-schema.ts.
CREATE TABLE migrations (
  version    integer     PRIMARY KEY,
  name       text        NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
);

-- What this store is: one row.
CREATE TABLE meta (
  id         integer PRIMARY KEY CHECK (id = 1),
  epoch      text    NOT NULL,
  secret     text    NOT NULL,
  created_at bigint  NOT NULL,
  -- The snapshot format nodes write; an operator raises it when all of them can read it.
  format     integer NOT NULL
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
  flags     text    NOT NULL,
  snapshot  text    NOT NULL
) WITH (fillfactor = 50);

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
  queued_at        bigint,
  -- 0 while it holds its floor; while it is paused, the place in the floor's log where it was paused.
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
  kind      text     NOT NULL,
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

-- Puts sessions, in the order of their ids: another floor that brings the same ones must not wait for this one while
-- this one waits for it.
CREATE FUNCTION write_sessions(this_floor bigint, given json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  put  record;
  this bigint;
BEGIN
  FOR put IN
    SELECT * FROM json_to_recordset(given) AS s (
      id text, state text, agent_id text, user_id text, owner_id text, workspace_id text, last_activity_at bigint,
      queued_at bigint, paused_at bigint, oldest_at bigint, head bigint, view text, memory text, words tsvector)
    ORDER BY id COLLATE "C"
  LOOP
    UPDATE sessions SET
      state = put.state, agent_id = put.agent_id, user_id = put.user_id, owner_id = put.owner_id,
      workspace_id = put.workspace_id, last_activity_at = put.last_activity_at, queued_at = put.queued_at,
      -- It came to be paused by its last transition; without one it is paused since before.
      standing = CASE put.state WHEN 'active' THEN 0
        WHEN 'paused' THEN coalesce(put.paused_at, nullif(standing, 0), 1) END,
      oldest_at = coalesce(oldest_at, put.oldest_at), head = put.head, view = put.view, memory = put.memory
      WHERE id = put.id AND floor_key = this_floor RETURNING session_key INTO this;
    IF FOUND THEN
      UPDATE session_words SET words = put.words WHERE session_key = this AND words <> put.words;
    ELSE
      -- One that is on another floor has its id taken.
      INSERT INTO sessions (id, floor_key, state, agent_id, user_id, owner_id, workspace_id, last_activity_at, queued_at,
          standing, oldest_at, head, view, memory)
        VALUES (put.id, this_floor, put.state, put.agent_id, put.user_id, put.owner_id, put.workspace_id,
          put.last_activity_at, put.queued_at,
          CASE put.state WHEN 'active' THEN 0 WHEN 'paused' THEN coalesce(put.paused_at, 1) END,
          put.oldest_at, put.head, put.view, put.memory)
        RETURNING session_key INTO this;
      INSERT INTO session_words VALUES (this, put.words);
    END IF;
  END LOOP;
END $$;

-- Writes to messages, in their order: what clients say, what agents say, and what becomes of it.
CREATE FUNCTION write_messages(this_floor bigint, given json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  write       record;
  this        bigint;
  of_session  bigint;
  lacks_words boolean;
BEGIN
  FOR write IN
    SELECT * FROM json_to_recordset(given) AS w (
      kind text, session_id text, id text, status text, details text, content text, words tsvector, images text[])
  LOOP
    SELECT session_key INTO of_session FROM sessions WHERE id = write.session_id AND floor_key = this_floor;
    IF NOT FOUND THEN
      RAISE no_data_found USING MESSAGE = format('there is no session %s on this floor', write.session_id);
    END IF;

    IF write.kind = 'add' THEN
      INSERT INTO messages (session_key, floor_key, id, status, details, content, words)
        VALUES (of_session, this_floor, write.id, write.status, write.details, write.content, write.words)
        RETURNING message_key INTO this;
    ELSIF write.kind = 'remove' THEN
      DELETE FROM messages WHERE session_key = of_session AND id = write.id RETURNING message_key INTO this;
      CONTINUE WHEN NOT FOUND;
      DELETE FROM message_logs WHERE session_key = of_session AND message_key = this;
    ELSE
      UPDATE messages SET
        status  = coalesce(write.status, status),
        details = coalesce(write.details, details),
        content = CASE WHEN write.kind = 'append' THEN content || write.content
                       ELSE coalesce(write.content, content) END,
        words   = CASE WHEN coalesce(write.status, status) = 'running' THEN NULL
                       WHEN write.content IS NULL THEN coalesce(write.words, words)
                       ELSE write.words END
        WHERE session_key = of_session AND id = write.id
        RETURNING message_key, words IS NULL AND status <> 'running' INTO this, lacks_words;
      IF NOT FOUND THEN
        RAISE no_data_found USING MESSAGE = format('there is no message %s to %s', write.id, write.kind);
      END IF;
      -- Whoever wrote this did not know that the message is finished: it is asked to say its words.
      IF lacks_words THEN RAISE 'the words of message % are wanted', write.id USING ERRCODE = 'IL001'; END IF;
    END IF;

    IF write.kind IN ('put', 'remove') THEN
      WITH released AS (
        DELETE FROM message_blobs WHERE session_key = of_session AND message_key = this RETURNING blob_key
      )
      UPDATE blobs SET uses = uses - 1 FROM released WHERE blobs.blob_key = released.blob_key;
    END IF;
    IF write.images IS NOT NULL THEN
      WITH used AS (
        UPDATE blobs SET uses = uses + 1 WHERE session_id = write.session_id AND hash = ANY (write.images)
          RETURNING blob_key
      )
      INSERT INTO message_blobs SELECT of_session, this, blob_key FROM used;
    END IF;
  END LOOP;
END $$;

-- Deletes sessions and all they have; a tombstone stays for each.
CREATE FUNCTION delete_sessions(this_floor bigint, given json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  gone  record;
  owner text;
BEGIN
  FOR gone IN
    SELECT * FROM json_to_recordset(given) AS d (
      session_id text, deleted_at bigint, floor_seq bigint, seq bigint, type text, request_id text, at bigint, json text)
  LOOP
    DELETE FROM sessions WHERE id = gone.session_id AND floor_key = this_floor RETURNING owner_id INTO owner;
    DELETE FROM blobs WHERE session_id = gone.session_id;
    INSERT INTO tombstones AS t
      VALUES (gone.session_id, this_floor, owner, gone.deleted_at, gone.floor_seq, gone.seq, gone.type, gone.request_id,
        gone.at, gone.json)
      ON CONFLICT (session_id) DO UPDATE SET
        floor_key = this_floor, owner_id = owner, deleted_at = gone.deleted_at, floor_seq = gone.floor_seq,
        seq = gone.seq, type = gone.type, request_id = gone.request_id, at = gone.at, json = gone.json;
  END LOOP;
END $$;

-- A floor's whole change, or nothing of it: false when its version is not the expected one. A taken key is a
-- unique_violation. Called as a statement of its own, so the transaction is this one call. Locks are taken in one order
-- by all: the floor, then sessions, effects and receipts, each by their keys; so two changes never wait for each other.
-- Lists are null when they are empty.
CREATE FUNCTION commit_floor(
  floor_id text, expected bigint, new_head bigint, new_format integer, new_flags text, new_snapshot text,
  sessions_put json, messages_written json, logs_added json, events_added json,
  effects_removed text[], effects_added json, receipts_added json, sessions_deleted json
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  this bigint;
BEGIN
  IF expected = 0 THEN
    INSERT INTO floors (id, version, head, format, flags, snapshot)
      VALUES (floor_id, 1, new_head, new_format, new_flags, new_snapshot)
      ON CONFLICT (id) DO NOTHING RETURNING floor_key INTO this;
  ELSE
    UPDATE floors SET
      version = expected + 1, head = new_head, format = new_format, flags = new_flags, snapshot = new_snapshot
      WHERE id = floor_id AND version = expected RETURNING floor_key INTO this;
  END IF;
  IF NOT FOUND THEN RETURN false; END IF;

  IF sessions_put IS NOT NULL THEN PERFORM write_sessions(this, sessions_put); END IF;
  IF messages_written IS NOT NULL THEN PERFORM write_messages(this, messages_written); END IF;

  IF logs_added IS NOT NULL THEN
    -- A line that is there already is the same line.
    INSERT INTO message_logs (session_key, message_key, id, stream, text, at)
      SELECT l.session_key,
          (SELECT m.message_key FROM messages m WHERE m.session_key = l.session_key AND m.id = l.message_id),
          l.id, l.stream, l.text, l.at
        FROM (
          SELECT given.*,
              (SELECT s.session_key FROM sessions s WHERE s.id = given.session_id AND s.floor_key = this) AS session_key
            FROM ROWS FROM (json_to_recordset(logs_added) AS (
              session_id text, message_id text, id text, stream text, text text, at bigint)) WITH ORDINALITY
              AS given (session_id, message_id, id, stream, text, at, place)
        ) l
        ORDER BY l.place
      ON CONFLICT (session_key, message_key, id) DO NOTHING;
  END IF;

  IF events_added IS NOT NULL THEN
    INSERT INTO events (floor_key, floor_seq, session_key, seq, type, request_id, at, json)
      SELECT this, e.floor_seq,
          (SELECT s.session_key FROM sessions s WHERE s.id = e.session_id AND s.floor_key = this),
          e.seq, e.type, e.request_id, e.at, e.json
        FROM json_to_recordset(events_added) AS e (
          floor_seq bigint, session_id text, seq bigint, type text, request_id text, at bigint, json text);
  END IF;

  IF effects_removed IS NOT NULL THEN DELETE FROM effects WHERE id = ANY (effects_removed); END IF;
  IF effects_added IS NOT NULL THEN
    INSERT INTO effects
      SELECT id, partition, this, kind, due_at, payload FROM json_to_recordset(effects_added) AS e (
        id text, partition smallint, kind text, due_at bigint, payload text)
      ORDER BY id COLLATE "C";
  END IF;

  IF receipts_added IS NOT NULL THEN
    INSERT INTO receipts (caller, command_id, floor_key, body_hash, at, reply)
      SELECT caller, command_id, this, body_hash, at, reply FROM json_to_recordset(receipts_added) AS r (
        caller text, command_id text, body_hash text, at bigint, reply text)
      ORDER BY caller COLLATE "C", command_id COLLATE "C";
  END IF;

  IF sessions_deleted IS NOT NULL THEN PERFORM delete_sessions(this, sessions_deleted); END IF;
  RETURN true;
END $$;

-- Moves every effect. No commit may touch one meanwhile: in another order of rows, each would wait for the other.
CREATE FUNCTION shift_effects(by_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  LOCK TABLE effects IN SHARE ROW EXCLUSIVE MODE;
  UPDATE effects SET due_at = due_at + by_ms;
END $$;

-- Deletes old events of the archived session that has the oldest: at most so many. How many rows were looked at; 0 when
-- there is nothing more to prune. Locks come in the order of commits: the floor, then the session.
CREATE FUNCTION prune_log(before bigint, piece integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  this           record;
  event          record;
  last_seq       bigint := 0;
  last_floor_seq bigint := 0;
  next_at        bigint;
  touched        integer := 0;
BEGIN
  SELECT session_key, floor_key INTO this FROM sessions
    WHERE state = 'archived' AND oldest_at IS NOT NULL AND oldest_at < before ORDER BY oldest_at LIMIT 1;
  IF NOT FOUND THEN RETURN 0; END IF;
  PERFORM FROM floors WHERE floor_key = this.floor_key FOR NO KEY UPDATE;
  PERFORM FROM sessions
    WHERE session_key = this.session_key AND state = 'archived' AND oldest_at < before FOR NO KEY UPDATE;
  -- Another node has pruned it meanwhile.
  IF NOT FOUND THEN RETURN 1; END IF;

  FOR event IN
    SELECT seq, floor_seq, at FROM events WHERE session_key = this.session_key ORDER BY seq LIMIT piece + 1
  LOOP
    IF event.at >= before OR touched = piece THEN
      next_at := event.at;
      EXIT;
    END IF;
    last_seq := event.seq;
    last_floor_seq := event.floor_seq;
    touched := touched + 1;
  END LOOP;
  -- Whoever reads from below the mark learns that there was more.
  UPDATE sessions SET low_water = greatest(low_water, last_seq), oldest_at = next_at
    WHERE session_key = this.session_key;
  IF touched > 0 THEN
    UPDATE floors SET low_water = greatest(low_water, last_floor_seq) WHERE floor_key = this.floor_key;
    DELETE FROM events WHERE session_key = this.session_key AND seq <= last_seq;
  END IF;
  RETURN greatest(touched, 1);
END $$;
