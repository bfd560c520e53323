-- When the first session of the floor that waits for its time asks for it, on the wall clock.
ALTER TABLE floors ADD COLUMN rings_at INTEGER;
CREATE INDEX floors_by_ring ON floors (rings_at, id) WHERE rings_at IS NOT NULL;
