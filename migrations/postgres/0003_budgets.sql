-- The turns and tokens of each day, per owner and agent. Rows are of one floor, so commits of different floors write
-- different rows. `owner_id` is empty for turns without an owner.
CREATE TABLE usage (
  floor_key bigint  NOT NULL,
  -- UTC days since 1970.
  day       integer NOT NULL,
  owner_id  text    COLLATE "C" NOT NULL,
  agent_id  text    COLLATE "C" NOT NULL,
  runs      bigint  NOT NULL,
  input     bigint  NOT NULL,
  output    bigint  NOT NULL,
  tokens    bigint  NOT NULL,
  PRIMARY KEY (floor_key, day, owner_id, agent_id)
) WITH (fillfactor = 70);
CREATE INDEX usage_by_day ON usage (day DESC, owner_id, agent_id);
-- Rows that are not summed over the floors yet.
CREATE INDEX usage_of_floors ON usage (day) WHERE floor_key <> 0;
CREATE INDEX usage_by_owner ON usage (owner_id, day DESC, agent_id);

-- The present window of each budget, per owner or agent.
CREATE TABLE budgets (
  -- Names the budget, and whose it is.
  scope    text   COLLATE "C" PRIMARY KEY,
  owner_id text   COLLATE "C",
  -- When the window ends, in the floors' time.
  ends_at  bigint NOT NULL,
  used     bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX budgets_by_end ON budgets (ends_at);
CREATE INDEX budgets_by_owner ON budgets (owner_id) WHERE owner_id IS NOT NULL;
