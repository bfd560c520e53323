-- A history that is being copied or imported belongs to a staged session: a row of state 'staged', whose id no client can
-- name. The commit that makes the session renames that row, however many messages it has. Staged sessions, and the
-- messages written with them, name floor 0. Its empty id comes before every other, so no list of floors shows it.
INSERT INTO floors (floor_key, id, version, head, format, flags, snapshot) VALUES (0, '', 0, 0, 0, '{}', '{}');
CREATE INDEX sessions_staged ON sessions (last_activity_at) WHERE state = 'staged';
