-- Until when nothing may be pruned because the clock jumped, in ms since 1970: it outlives the process that saw the jump.
ALTER TABLE meta ADD COLUMN doubt_until bigint NOT NULL DEFAULT 0;
