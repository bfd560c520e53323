-- What receivers of webhooks are still to be sent. A lane is one hook and one session, or a floor whose decisions belong
-- to no session: its notices are sent one after the other, in the order of their keys.
CREATE TABLE webhook_lanes (
  lane_key  INTEGER PRIMARY KEY,
  -- A session's id, or a floor's.
  subject   TEXT    NOT NULL,
  hook      TEXT    NOT NULL,
  floor_key INTEGER NOT NULL REFERENCES floors,
  -- When its oldest notice is to be sent, in the floors' time; while a node sends it, when another node may.
  due_at    INTEGER NOT NULL,
  -- New each time a node takes the lane: only that node then changes it.
  claim     TEXT,
  -- How often its oldest notice was not accepted, and why the last time.
  failures  INTEGER NOT NULL DEFAULT 0,
  reason    TEXT,
  UNIQUE (subject, hook)
) STRICT;
CREATE INDEX webhook_lanes_due ON webhook_lanes (hook, due_at);
CREATE INDEX webhook_lanes_failing ON webhook_lanes (hook, failures) WHERE failures > 0;
CREATE INDEX webhook_lanes_of_floor ON webhook_lanes (floor_key);
CREATE INDEX webhook_lanes_claimed ON webhook_lanes (claim) WHERE claim IS NOT NULL;

-- `payload` is the body of the request.
CREATE TABLE webhook_notices (
  notice_key INTEGER PRIMARY KEY,
  lane_key   INTEGER NOT NULL REFERENCES webhook_lanes ON DELETE CASCADE,
  id         TEXT    NOT NULL,
  -- In the floors' time.
  added_at   INTEGER NOT NULL,
  payload    TEXT    NOT NULL
) STRICT;
CREATE INDEX webhook_notices_in_order ON webhook_notices (lane_key, notice_key, added_at);
