-- For whom a floor is kept while nobody has it, as JSON.
ALTER TABLE floors ADD COLUMN reserved text;

-- A reservation is made and ended rarely: the row is written a second time only when it changes.
CREATE FUNCTION commit_floor(
  floor_id text, expected bigint, new_head bigint, new_format integer, new_flags text, new_snapshot text,
  sessions_put json, messages_written json, logs_added json, events_added json,
  effects_removed text[], effects_added json, receipts_added json, sessions_deleted json, ids_free text[],
  new_reserved text
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF NOT commit_floor(floor_id, expected, new_head, new_format, new_flags, new_snapshot, sessions_put, messages_written,
      logs_added, events_added, effects_removed, effects_added, receipts_added, sessions_deleted, ids_free) THEN
    RETURN false;
  END IF;
  UPDATE floors SET reserved = new_reserved WHERE id = floor_id AND reserved IS DISTINCT FROM new_reserved;
  RETURN true;
END $$;
