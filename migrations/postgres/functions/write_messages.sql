-- Writes to messages, in their order: what clients say, what agents say, and what becomes of it.
CREATE OR REPLACE FUNCTION write_messages(this_floor bigint, given json) RETURNS void LANGUAGE plpgsql AS $$
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
