-- Commits changes of different floors in one transaction, in the order in which they are given: for each of them what
-- commit_floor returns. Null: nothing was done, because one of them failed, or would have waited for another transaction
-- for longer than 20 ms. The caller commits each alone then. Groups of several nodes take locks on receipts, sessions and
-- effects in no common order; giving up early breaks every deadlock before it is one, and no floor waits long for another's.
CREATE OR REPLACE FUNCTION commit_floors(changes json) RETURNS boolean[] LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('lock_timeout', '20', true);
  RETURN ARRAY (
    SELECT commit_floor(c.floor_id, c.expected, c.head, c.format, c.flags, c.snapshot, c.sessions, c.messages, c.logs,
        c.events, c.effects_removed, c.effects_added, c.receipts, c.deleted, c.free, c.reserved, c.adopted, c.alarm, c.partition)
      FROM json_to_recordset(changes) AS c (
        floor_id text, expected bigint, head bigint, format integer, flags text, snapshot text, sessions json,
        messages json, logs json, events json, effects_removed text[], effects_added json, receipts json, deleted json,
        free text[], reserved text, adopted json, alarm bigint, partition smallint));
EXCEPTION WHEN OTHERS THEN
  RETURN NULL;
END $$;
