-- Adds notices to the ends of their lanes, in the order in which they are given. The lane's row is locked first: whoever
-- ends a lane that is empty sees this notice, or is waited for.
CREATE OR REPLACE FUNCTION add_notices(this_floor bigint, given json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  notice record;
  lane   bigint;
BEGIN
  FOR notice IN
    SELECT * FROM ROWS FROM (json_to_recordset(given) AS (id text, hook text, subject text, at bigint, payload text))
      WITH ORDINALITY AS n (id, hook, subject, at, payload, place) ORDER BY place
  LOOP
    INSERT INTO webhook_lanes (subject, hook, floor_key, due_at)
      VALUES (notice.subject, notice.hook, this_floor, notice.at)
      ON CONFLICT (subject, hook) DO UPDATE SET floor_key = this_floor RETURNING lane_key INTO lane;
    INSERT INTO webhook_notices (lane_key, id, added_at, payload) VALUES (lane, notice.id, notice.at, notice.payload);
  END LOOP;
END $$;
