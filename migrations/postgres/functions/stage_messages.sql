-- Adds finished messages to a staged session, which is made with its first ones. `final_id`: the id that the session is to
-- have, under which the images of its messages are stored.
CREATE OR REPLACE FUNCTION stage_messages(staged text, final_id text, now_ms bigint, given json) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  of_session bigint;
  this       bigint;
  message    record;
BEGIN
  UPDATE sessions SET last_activity_at = now_ms WHERE id = staged RETURNING session_key INTO of_session;
  IF NOT FOUND THEN
    INSERT INTO sessions (id, floor_key, state, agent_id, last_activity_at, head, view, memory)
      VALUES (staged, 0, 'staged', '', now_ms, 0, '{}', '{}') RETURNING session_key INTO of_session;
    INSERT INTO session_words VALUES (of_session, '');
  END IF;
  FOR message IN
    SELECT * FROM json_to_recordset(given) AS m (
      id text, status text, details text, content text, words tsvector, images text[])
  LOOP
    INSERT INTO messages (session_key, floor_key, id, status, details, content, words)
      VALUES (of_session, 0, message.id, message.status, message.details, message.content, message.words)
      RETURNING message_key INTO this;
    IF message.images IS NOT NULL THEN
      WITH used AS (
        UPDATE blobs SET uses = uses + 1 WHERE session_id = final_id AND hash = ANY (message.images) RETURNING blob_key
      )
      INSERT INTO message_blobs SELECT of_session, this, blob_key FROM used;
    END IF;
  END LOOP;
END $$;

-- Deletes a piece of the oldest staged session that was last written to before a time. Returns how many rows were looked
-- at; 0 if there is nothing to delete.
CREATE OR REPLACE FUNCTION prune_staged(before bigint, piece integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  this    bigint;
  gone    bigint[];
  touched integer;
BEGIN
  SELECT session_key INTO this FROM sessions WHERE state = 'staged' AND last_activity_at < before
    ORDER BY last_activity_at LIMIT 1 FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN 0; END IF;
  gone := ARRAY (SELECT message_key FROM messages WHERE session_key = this ORDER BY message_key LIMIT piece);
  WITH released AS (
    DELETE FROM message_blobs WHERE session_key = this AND message_key = ANY (gone) RETURNING blob_key
  ), counted AS (
    SELECT blob_key, count(*) AS times FROM released GROUP BY blob_key
  )
  UPDATE blobs SET uses = uses - counted.times FROM counted WHERE blobs.blob_key = counted.blob_key;
  DELETE FROM messages WHERE session_key = this AND message_key = ANY (gone);
  touched := coalesce(array_length(gone, 1), 0);
  IF touched < piece THEN DELETE FROM sessions WHERE session_key = this; END IF;
  RETURN greatest(touched, 1);
END $$;
