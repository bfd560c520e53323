-- When a session's oldest unfinished run was accepted, and when its last turn failed. Of earlier rows it is not known:
-- there it is when the session was last active.
ALTER TABLE sessions ADD COLUMN runs_at bigint, ADD COLUMN failed_at bigint;
UPDATE sessions SET runs_at = last_activity_at
WHERE memory LIKE ANY (ARRAY['%"run":{%', '%"turns":[{%', '%"summarizing":{%']);
UPDATE sessions SET failed_at = last_activity_at WHERE view LIKE '%"failure":{%';
CREATE INDEX sessions_by_run ON sessions (runs_at, id, owner_id, user_id) WHERE runs_at IS NOT NULL;
CREATE INDEX sessions_by_failure ON sessions (failed_at, id, owner_id, user_id) WHERE failed_at IS NOT NULL;
