-- Deletes old events of the archived session that has the oldest: at most so many. How many rows were looked at; 0 when
-- there is nothing more to prune. Locks come in the order of commits: the floor, then the session.
CREATE OR REPLACE FUNCTION prune_log(before bigint, piece integer) RETURNS integer LANGUAGE plpgsql AS $$
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
