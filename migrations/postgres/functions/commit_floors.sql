-- Commits changes of different floors in one transaction, in the order in which they are given: for each of them what
-- commit_floor returns. Null: nothing was done, because one of them failed, or would have waited for another transaction
-- for longer than 20 ms. The caller commits each alone then (W10). Groups of several nodes take locks on receipts, sessions and
-- effects in no common order; giving up early breaks every deadlock before it is one, and no floor waits long for another's.
CREATE OR REPLACE FUNCTION commit_floors(changes json) RETURNS boolean[] LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('lock_timeout', '20', true);
  RETURN ARRAY (
    SELECT commit_floor(change) FROM json_array_elements(changes) WITH ORDINALITY AS c (change, place) ORDER BY place);
EXCEPTION WHEN OTHERS THEN
  RETURN NULL;
END $$;
