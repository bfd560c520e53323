-- Commits changes of one or two floors, if what they add to budgets stays within them. Returns null when that is done, and
-- otherwise the budgets that are used up; nothing is written then (W7). A conflict is a unique_violation, as in commit_both.
-- The rows of budgets are locked first and in one order, before those of floors, so two of these never wait for each other;
-- other commits lock no row of a budget.
CREATE OR REPLACE FUNCTION commit_counted(counts json, changes json) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
  each record;
  sum  bigint;
  until bigint;
  over json[] := '{}';
BEGIN
  FOR each IN
    SELECT * FROM json_to_recordset(counts) AS c (
      scope text, owner_id text, within bigint, at bigint, add bigint, max bigint) ORDER BY scope COLLATE "C"
  LOOP
    -- A window that ends later than one that began now was begun by a clock that was ahead.
    INSERT INTO budgets AS b (scope, owner_id, ends_at, used)
      VALUES (each.scope, each.owner_id, each.at + each.within, each.add)
      ON CONFLICT (scope) DO UPDATE SET
        used = CASE WHEN b.ends_at <= each.at THEN 0 ELSE b.used END + each.add,
        ends_at = CASE WHEN b.ends_at <= each.at THEN each.at + each.within
          ELSE least(b.ends_at, each.at + each.within) END
      RETURNING used, ends_at INTO sum, until;
    IF sum > each.max THEN
      over := over || json_build_object(
        'scope', each.scope, 'room', greatest(0, each.max - (sum - each.add)), 'freeAt', until);
    END IF;
  END LOOP;
  IF cardinality(over) > 0 THEN RAISE SQLSTATE 'ILB01'; END IF;
  PERFORM commit_both(changes);
  RETURN NULL;
EXCEPTION WHEN SQLSTATE 'ILB01' THEN
  RETURN to_json(over);
END $$;
