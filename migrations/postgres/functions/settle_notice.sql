-- Ends the sending of a lane's oldest notice. `next_at` null: the notice is done, and the next one of its lane is due
-- `now_at`; otherwise it is due again then. If another node has taken the lane meanwhile, the lane is that node's.
CREATE OR REPLACE FUNCTION settle_notice(
  this_lane bigint, this_claim text, this_notice text, now_at bigint, next_at bigint, failed integer, why text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  holder text;
BEGIN
  SELECT claim INTO holder FROM webhook_lanes WHERE lane_key = this_lane FOR UPDATE;
  IF NOT FOUND THEN RETURN; END IF;
  IF next_at IS NOT NULL THEN
    UPDATE webhook_lanes SET due_at = next_at, claim = NULL, failures = failed, reason = why
      WHERE lane_key = this_lane AND claim = this_claim;
    RETURN;
  END IF;
  DELETE FROM webhook_notices WHERE lane_key = this_lane AND id = this_notice;
  IF holder IS DISTINCT FROM this_claim THEN RETURN; END IF;
  IF EXISTS (SELECT FROM webhook_notices WHERE lane_key = this_lane) THEN
    UPDATE webhook_lanes SET due_at = now_at, claim = NULL, failures = 0, reason = NULL WHERE lane_key = this_lane;
  ELSE
    DELETE FROM webhook_lanes WHERE lane_key = this_lane;
  END IF;
END $$;
