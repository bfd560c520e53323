-- Puts sessions, in the order of their ids: another floor that brings the same ones must not wait for this one while
-- this one waits for it.
CREATE OR REPLACE FUNCTION write_sessions(this_floor bigint, given json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  put  record;
  this bigint;
BEGIN
  FOR put IN
    SELECT * FROM json_to_recordset(given) AS s (
      id text, state text, agent_id text, user_id text, owner_id text, workspace_id text, last_activity_at bigint,
      queued_at bigint, paused_at bigint, oldest_at bigint, due_at bigint, runs_at bigint,
      failed_at bigint, head bigint, view text, memory text, words tsvector)
    ORDER BY id COLLATE "C"
  LOOP
    UPDATE sessions SET
      state = put.state, agent_id = put.agent_id, user_id = put.user_id, owner_id = put.owner_id,
      workspace_id = put.workspace_id, last_activity_at = put.last_activity_at, queued_at = put.queued_at,
      -- It came to be paused by its last transition; without one it is paused since before.
      standing = CASE put.state WHEN 'active' THEN 0 WHEN 'ducked' THEN -1
        WHEN 'paused' THEN coalesce(put.paused_at, CASE WHEN standing > 0 THEN standing END, 1) END,
      due_at = put.due_at, runs_at = put.runs_at, failed_at = put.failed_at, oldest_at = coalesce(oldest_at, put.oldest_at), head = put.head, view = put.view, memory = put.memory
      WHERE id = put.id AND floor_key = this_floor RETURNING session_key INTO this;
    IF FOUND THEN
      UPDATE session_words SET words = put.words WHERE session_key = this AND words <> put.words;
    ELSE
      -- One that is on another floor has its id taken.
      INSERT INTO sessions (id, floor_key, state, agent_id, user_id, owner_id, workspace_id, last_activity_at, queued_at,
          standing, due_at, runs_at, failed_at, oldest_at, head, view, memory)
        VALUES (put.id, this_floor, put.state, put.agent_id, put.user_id, put.owner_id, put.workspace_id,
          put.last_activity_at, put.queued_at,
          CASE put.state WHEN 'active' THEN 0 WHEN 'ducked' THEN -1 WHEN 'paused' THEN coalesce(put.paused_at, 1) END,
          put.due_at, put.runs_at, put.failed_at, put.oldest_at, put.head, put.view, put.memory)
        RETURNING session_key INTO this;
      INSERT INTO session_words VALUES (this, put.words);
    END IF;
  END LOOP;
END $$;
