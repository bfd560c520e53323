-- Deletes sessions and all they have; a tombstone stays for each.
CREATE OR REPLACE FUNCTION delete_sessions(this_floor bigint, given json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  gone  record;
  owner text;
BEGIN
  FOR gone IN
    SELECT * FROM json_to_recordset(given) AS d (
      session_id text, {{tombstones: $name $type}})
  LOOP
    DELETE FROM sessions WHERE id = gone.session_id AND floor_key = this_floor RETURNING owner_id INTO owner;
    DELETE FROM blobs WHERE session_id = gone.session_id;
    DELETE FROM webhook_lanes WHERE subject = gone.session_id;
    INSERT INTO tombstones (session_id, floor_key, owner_id, {{tombstones: $name}})
      VALUES (gone.session_id, this_floor, owner, {{tombstones: gone.$name}})
      ON CONFLICT (session_id) DO UPDATE SET
        floor_key = this_floor, owner_id = owner, {{tombstones: $name = gone.$name}};
  END LOOP;
END $$;
