-- A floor's log is divided into blocks of 32 places; a block's number is event_key >> 5. Two tables say which blocks hold
-- events of a session and which hold decisions, in place of two indexes with an entry for each event: a commit writes
-- one page less for each. The former index also served the deletion of a session's events by foreign key; the writer
-- deletes them now, so the table has to be made anew without that key.

CREATE TABLE log_events (
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
INSERT INTO log_events
  SELECT event_key, session_key, seq, type, request_id, at, json, message_key, text_at FROM events ORDER BY event_key;

CREATE TABLE log_event_blobs (
  event_key INTEGER PRIMARY KEY REFERENCES log_events ON DELETE CASCADE,
  json      TEXT    NOT NULL
) STRICT;
INSERT INTO log_event_blobs SELECT event_key, json FROM event_blobs ORDER BY event_key;

DROP TABLE event_blobs;
DROP TABLE events;
ALTER TABLE log_events RENAME TO events;
ALTER TABLE log_event_blobs RENAME TO event_blobs;
CREATE INDEX events_of_message ON events (message_key) WHERE message_key IS NOT NULL;

-- The blocks that hold events of a session, each with the session's first place in it.
CREATE TABLE session_blocks (
  session_key INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
  seq         INTEGER NOT NULL,
  block       INTEGER NOT NULL,
  PRIMARY KEY (session_key, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO session_blocks
  SELECT session_key, min(seq), event_key >> 5 FROM events WHERE session_key IS NOT NULL
  GROUP BY session_key, event_key >> 5;

-- The blocks that hold decisions of the arbiter.
CREATE TABLE decision_blocks (block INTEGER PRIMARY KEY) STRICT;
INSERT INTO decision_blocks SELECT DISTINCT event_key >> 5 FROM events WHERE type = 'arbitration';
