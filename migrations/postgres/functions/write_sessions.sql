-- Puts sessions, in the order of their ids: another floor that brings the same ones must not wait for this one while
-- this one waits for it. What is in double braces, in all functions, is a table's columns: src/store/columns.ts.
CREATE OR REPLACE FUNCTION write_sessions(this_floor bigint, given json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  put  record;
  this bigint;
BEGIN
  FOR put IN
    SELECT * FROM json_to_recordset(given) AS s (
      id text, {{sessions: $name $type}}, {{session_content: $name $type}}, paused_at bigint, oldest_at bigint,
      runs_at bigint, words tsvector)
    ORDER BY id COLLATE "C"
  LOOP
    UPDATE sessions SET
      {{sessions: $name = put.$name}}, {{session_content: $name = put.$name}},
      -- It came to be paused by its last transition; without one it is paused since before.
      standing = CASE put.state WHEN 'active' THEN 0 WHEN 'ducked' THEN -1
        WHEN 'paused' THEN coalesce(put.paused_at, CASE WHEN standing > 0 THEN standing END, 1) END,
      oldest_at = coalesce(oldest_at, put.oldest_at),
      runs_at = CASE WHEN put.runs_at IS NOT NULL THEN least(runs_at, put.runs_at) END
      WHERE id = put.id AND floor_key = this_floor RETURNING session_key INTO this;
    IF FOUND THEN
      UPDATE session_words SET words = put.words WHERE session_key = this AND words <> put.words;
    ELSE
      -- One that is on another floor has its id taken.
      INSERT INTO sessions (id, floor_key, {{sessions: $name}}, {{session_content: $name}}, standing, oldest_at, runs_at)
        VALUES (put.id, this_floor, {{sessions: put.$name}}, {{session_content: put.$name}},
          CASE put.state WHEN 'active' THEN 0 WHEN 'ducked' THEN -1 WHEN 'paused' THEN coalesce(put.paused_at, 1) END,
          put.oldest_at, put.runs_at)
        RETURNING session_key INTO this;
      INSERT INTO session_words VALUES (this, put.words);
    END IF;
  END LOOP;
END $$;
