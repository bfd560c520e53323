-- The functions in the folder `functions` as they were applied last: a file is applied again when its digest differs. From
-- here on a function is changed there. A release that changes one also adds a migration, so that a node of the release
-- before, started late, is refused instead of putting its own version back.
CREATE TABLE functions (
  name   text COLLATE "C" PRIMARY KEY,
  digest text NOT NULL
);
COMMENT ON COLUMN sessions.standing IS
  '0 while the session holds its floor, -1 while it is ducked; while it is paused, the place in the floor''s log where it was paused';
