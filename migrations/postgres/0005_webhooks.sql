-- What receivers of webhooks are still to be sent. A lane is one hook and one session, or a floor whose decisions belong
-- to no session: its notices are sent one after the other, in the order of their keys. Whoever changes what a lane has
-- locks its row first.
CREATE TABLE webhook_lanes (
  lane_key  bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  -- A session's id, or a floor's.
  subject   text    COLLATE "C" NOT NULL,
  hook      text    COLLATE "C" NOT NULL,
  floor_key bigint  NOT NULL,
  -- When its oldest notice is to be sent, in the floors' time; while a node sends it, when another node may.
  due_at    bigint  NOT NULL,
  -- New each time a node takes the lane: only that node then changes it.
  claim     text,
  -- How often its oldest notice was not accepted, and why the last time.
  failures  integer NOT NULL DEFAULT 0,
  reason    text,
  UNIQUE (subject, hook)
);
CREATE INDEX webhook_lanes_due ON webhook_lanes (hook, due_at);
CREATE INDEX webhook_lanes_failing ON webhook_lanes (hook, failures) WHERE failures > 0;
CREATE INDEX webhook_lanes_of_floor ON webhook_lanes (floor_key);

-- `payload` is the body of the request.
CREATE TABLE webhook_notices (
  notice_key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  lane_key   bigint NOT NULL REFERENCES webhook_lanes ON DELETE CASCADE,
  id         text   COLLATE "C" NOT NULL,
  -- In the floors' time.
  added_at   bigint NOT NULL,
  payload    text   NOT NULL
);
CREATE INDEX webhook_notices_in_order ON webhook_notices (lane_key, notice_key) INCLUDE (added_at);
