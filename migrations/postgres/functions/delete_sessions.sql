-- Deletes sessions and all they have; a tombstone stays for each.
CREATE OR REPLACE FUNCTION delete_sessions(this_floor bigint, given json) RETURNS void LANGUAGE plpgsql AS $$
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
    DELETE FROM webhook_lanes WHERE subject = gone.session_id;
    INSERT INTO tombstones AS t
      VALUES (gone.session_id, this_floor, owner, gone.deleted_at, gone.floor_seq, gone.seq, gone.type, gone.request_id,
        gone.at, gone.json)
      ON CONFLICT (session_id) DO UPDATE SET
        floor_key = this_floor, owner_id = owner, deleted_at = gone.deleted_at, floor_seq = gone.floor_seq,
        seq = gone.seq, type = gone.type, request_id = gone.request_id, at = gone.at, json = gone.json;
  END LOOP;
END $$;
