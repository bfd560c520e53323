-- Deletes all rows about a user whose sessions are deleted. The user's floors are its own with their zones, and those of
-- single sessions that it owned, which the sessions' tombstones still name. Of a floor the id, the version and the head
-- stay: neither may begin again. Returns false if the user has sessions; nothing is deleted then.
CREATE OR REPLACE FUNCTION forget_user(this_user text, own_floor text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  forgotten bigint[];
BEGIN
  forgotten := ARRAY (
    SELECT floor_key FROM floors WHERE id = own_floor OR (id >= own_floor || '/' AND id < own_floor || '0')
    UNION SELECT f.floor_key FROM tombstones t JOIN floors f USING (floor_key)
      WHERE t.owner_id = this_user AND f.id >= 's:' AND f.id < 's;');
  -- No commit comes between the look at the sessions and the end.
  PERFORM FROM floors WHERE floor_key = ANY (forgotten) ORDER BY id FOR UPDATE;
  IF EXISTS (SELECT FROM sessions WHERE user_id = this_user OR owner_id = this_user) THEN RETURN false; END IF;

  DELETE FROM blobs WHERE session_id IN
    (SELECT session_id FROM tombstones WHERE owner_id = this_user OR floor_key = ANY (forgotten));
  DELETE FROM events WHERE floor_key = ANY (forgotten);
  DELETE FROM effects WHERE floor_key = ANY (forgotten);
  DELETE FROM webhook_lanes WHERE floor_key = ANY (forgotten);
  DELETE FROM receipts WHERE caller = 'owner:' || this_user OR floor_key = ANY (forgotten);
  DELETE FROM usage WHERE owner_id = this_user;
  DELETE FROM budgets WHERE owner_id = this_user;
  DELETE FROM tombstones WHERE owner_id = this_user OR floor_key = ANY (forgotten);
  DELETE FROM connections WHERE this_user IN (binding::json ->> 'userId', binding::json ->> 'ownerId');
  UPDATE floors SET low_water = head WHERE floor_key = ANY (forgotten);
  RETURN true;
END $$;
