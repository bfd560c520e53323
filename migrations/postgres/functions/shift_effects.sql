-- Moves every effect. No commit may touch one meanwhile: in another order of rows, each would wait for the other.
CREATE OR REPLACE FUNCTION shift_effects(by_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  LOCK TABLE effects IN SHARE ROW EXCLUSIVE MODE;
  UPDATE effects SET due_at = due_at + by_ms;
END $$;
