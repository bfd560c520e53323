-- Creates (expected 0), replaces or deletes (new_body null) a definition, with the receipt of the write. Returns false if
-- its version is not the expected one. A taken key is a unique_violation.
CREATE OR REPLACE FUNCTION change_definition(
  definition_id text, expected bigint, new_body text,
  receipt_caller text, receipt_command text, receipt_hash text, receipt_at bigint, receipt_reply text
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  -- Taken first by everyone, so that two changes never wait for each other.
  UPDATE meta SET definitions_version = definitions_version + 1 WHERE id = 1;
  IF new_body IS NULL THEN
    DELETE FROM agent_definitions WHERE id = definition_id AND version = expected;
  ELSIF expected = 0 THEN
    INSERT INTO agent_definitions (id, version, body) VALUES (definition_id, 1, new_body) ON CONFLICT (id) DO NOTHING;
  ELSE
    UPDATE agent_definitions SET version = expected + 1, body = new_body WHERE id = definition_id AND version = expected;
  END IF;
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO receipts (caller, command_id, floor_key, body_hash, at, reply)
    VALUES (receipt_caller, receipt_command, 0, receipt_hash, receipt_at, receipt_reply);
  RETURN true;
END $$;
