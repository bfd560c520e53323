-- The hash of a floor is called what it is: nodes divide the floors by it, and a partition is one node's part of them.
ALTER TABLE floors RENAME COLUMN partition TO floor_hash;
ALTER TABLE effects RENAME COLUMN partition TO floor_hash;

-- A session remembers its numbers. A claim is a worker's hold on a run. The key comes before all keys with content.
UPDATE sessions SET memory = regexp_replace(memory, '"claim":\{', '"numbers":{') WHERE memory LIKE '%"claim":{%';
