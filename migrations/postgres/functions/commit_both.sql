-- Commits changes of two floors, or nothing of either (W2), in the order in which they are given. A conflict of one is a
-- unique_violation, as a taken key is, so that the other is undone.
CREATE OR REPLACE FUNCTION commit_both(changes json) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  change json;
BEGIN
  FOR change IN SELECT value FROM json_array_elements(changes) LOOP
    IF NOT commit_floor(change) THEN
      RAISE unique_violation USING MESSAGE = 'a floor has another version';
    END IF;
  END LOOP;
  RETURN true;
END $$;
