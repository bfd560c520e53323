-- A history that is being copied or imported belongs to a staged session: a row of state 'staged' on floor 0, which does
-- not exist, with an id that no client can name. The commit that makes the session renames that row, however many messages
-- it has.
CREATE INDEX sessions_staged ON sessions (last_activity_at) WHERE state = 'staged';
