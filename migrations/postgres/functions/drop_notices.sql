-- Deletes the oldest notices of a hook: at most so many, while more than `keep` are left, and without those of lanes that
-- are being changed. A lane whose oldest notice goes begins anew with the next one, unless a node is sending. Returns how
-- many were deleted. One after the other: each counts what the one before has left.
DROP FUNCTION IF EXISTS drop_notices(text, bigint, integer, bigint);
CREATE OR REPLACE FUNCTION drop_notices(of_hook text, before bigint, at_most bigint, now_at bigint, keep bigint)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  lanes   bigint[];
  dropped integer;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('drop_notices'), hashtext(of_hook));
  IF keep > 0 THEN
    SELECT least(at_most, count(*) - keep) INTO at_most
      FROM webhook_lanes l JOIN webhook_notices n USING (lane_key) WHERE l.hook = of_hook;
    IF at_most <= 0 THEN RETURN 0; END IF;
  END IF;
  lanes := ARRAY (SELECT lane_key FROM webhook_lanes WHERE hook = of_hook FOR UPDATE SKIP LOCKED);
  WITH gone AS (
    DELETE FROM webhook_notices WHERE notice_key IN (
      SELECT notice_key FROM webhook_notices WHERE lane_key = ANY (lanes) AND added_at < before
        ORDER BY notice_key LIMIT at_most)
      RETURNING lane_key
  ), begun AS (
    UPDATE webhook_lanes SET due_at = now_at, failures = 0, reason = NULL
      WHERE lane_key IN (SELECT lane_key FROM gone) AND claim IS NULL
  )
  SELECT count(*) INTO dropped FROM gone;
  DELETE FROM webhook_lanes l WHERE lane_key = ANY (lanes)
    AND NOT EXISTS (SELECT FROM webhook_notices n WHERE n.lane_key = l.lane_key);
  RETURN dropped;
END $$;
