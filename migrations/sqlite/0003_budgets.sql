-- The turns and tokens of each day, per owner and agent. Rows are of one floor, so commits of different floors write
-- different rows. `owner_id` is empty for turns without an owner.
CREATE TABLE usage (
  floor_key INTEGER NOT NULL,
  -- UTC days since 1970.
  day       INTEGER NOT NULL,
  owner_id  TEXT    NOT NULL,
  agent_id  TEXT    NOT NULL,
  runs      INTEGER NOT NULL,
  input     INTEGER NOT NULL,
  output    INTEGER NOT NULL,
  tokens    INTEGER NOT NULL,
  PRIMARY KEY (floor_key, day, owner_id, agent_id)
) WITHOUT ROWID;
CREATE INDEX usage_by_day ON usage (day DESC, owner_id, agent_id);
-- Rows that are not summed over the floors yet.
CREATE INDEX usage_of_floors ON usage (day) WHERE floor_key <> 0;
CREATE INDEX usage_by_owner ON usage (owner_id, day DESC, agent_id);

-- The present window of each budget, per owner or agent.
CREATE TABLE budgets (
  -- Names the budget, and whose it is.
  scope    TEXT    PRIMARY KEY,
  owner_id TEXT,
  -- When the window ends, in the floors' time.
  ends_at  INTEGER NOT NULL,
  used     INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX budgets_by_end ON budgets (ends_at);
CREATE INDEX budgets_by_owner ON budgets (owner_id) WHERE owner_id IS NOT NULL;
