-- Commits a floor's whole change, or nothing of it. Returns false when the floor's version is not the expected one, or when
-- an id of `new_ids` belongs to a session or to a tombstone. A taken key is a unique_violation. It is called as a statement
-- of its own, so that the call is the transaction (W2). W1 to W10 are the invariants of `commit` in src/store/store.ts.
-- Locks are taken in one order everywhere: the floor, then sessions, effects and receipts, each by their keys; so two
-- changes never wait for each other. Lists are null when they are empty.
CREATE OR REPLACE FUNCTION commit_floor(change json) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  new     record;
  this    bigint;
  adopted integer;
BEGIN
  SELECT * INTO new FROM json_to_record(change) AS c (
    floor_id text, floor_hash smallint, expected bigint, {{floors: $name $type}}, new_ids text[], adopted json, sessions json, messages json, logs json, events json,
    effects_removed text[], effects_added json, receipts json, deleted json, usage json, notices json);

  -- W4. Another commit may take one of these ids after this check; the version or the unique key then reports a conflict.
  IF new.new_ids IS NOT NULL AND (EXISTS (SELECT FROM sessions WHERE id = ANY (new.new_ids))
      OR EXISTS (SELECT FROM tombstones WHERE session_id = ANY (new.new_ids))) THEN
    RETURN false;
  END IF;

  -- W1.
  IF new.expected = 0 THEN
    INSERT INTO floors (id, floor_hash, version, {{floors: $name}})
      VALUES (new.floor_id, new.floor_hash, 1, {{floors: new.$name}})
      ON CONFLICT (id) DO NOTHING RETURNING floor_key INTO this;
  ELSE
    UPDATE floors SET version = new.expected + 1, {{floors: $name = new.$name}}
      WHERE id = new.floor_id AND version = new.expected RETURNING floor_key INTO this;
  END IF;
  IF NOT FOUND THEN RETURN false; END IF;

  -- W6. No other session has an id like a staged one's.
  IF new.adopted IS NOT NULL THEN
    UPDATE sessions SET id = a.session_id, floor_key = this, state = 'created'
      FROM json_to_recordset(new.adopted) AS a (session_id text, staged_as text)
      WHERE sessions.id = a.staged_as;
    GET DIAGNOSTICS adopted = ROW_COUNT;
    IF adopted <> json_array_length(new.adopted) THEN
      RAISE unique_violation USING MESSAGE = 'a staged session is gone';
    END IF;
  END IF;

  -- Unique indexes keep W3, of sessions, messages and receipts.
  IF new.sessions IS NOT NULL THEN PERFORM write_sessions(this, new.sessions); END IF;
  IF new.messages IS NOT NULL THEN PERFORM write_messages(this, new.messages); END IF;

  IF new.logs IS NOT NULL THEN
    -- W8. The line of a session on another floor has no key, which its column refuses (W5).
    INSERT INTO message_logs (session_key, message_key, {{logs: $name}})
      SELECT l.session_key,
          (SELECT m.message_key FROM messages m WHERE m.session_key = l.session_key AND m.id = l.message_id),
          {{logs: l.$name}}
        FROM (
          SELECT given.*,
              (SELECT s.session_key FROM sessions s WHERE s.id = given.session_id AND s.floor_key = this) AS session_key
            FROM ROWS FROM (json_to_recordset(new.logs) AS (
              session_id text, message_id text, {{logs: $name $type}})) WITH ORDINALITY
              AS given (session_id, message_id, {{logs: $name}}, place)
        ) l
        ORDER BY l.place
      ON CONFLICT (session_key, message_key, id) DO NOTHING;
  END IF;

  IF new.events IS NOT NULL THEN
    -- A session on another floor has no key here, and an event has a seq and a session's key, or neither (W5).
    INSERT INTO events (floor_key, session_key, {{events: $name}})
      SELECT this, (SELECT s.session_key FROM sessions s WHERE s.id = e.session_id AND s.floor_key = this),
          {{events: e.$name}}
        FROM json_to_recordset(new.events) AS e (session_id text, {{events: $name $type}});
  END IF;

  IF new.effects_removed IS NOT NULL THEN DELETE FROM effects WHERE id = ANY (new.effects_removed); END IF;
  IF new.effects_added IS NOT NULL THEN
    INSERT INTO effects (floor_key, floor_hash, {{effects: $name}})
      SELECT this, floor_hash, {{effects: $name}}
        FROM json_to_recordset(new.effects_added) AS e (floor_hash smallint, {{effects: $name $type}})
      ORDER BY id COLLATE "C";
  END IF;

  IF new.receipts IS NOT NULL THEN
    INSERT INTO receipts (floor_key, {{receipts: $name}})
      SELECT this, {{receipts: $name}} FROM json_to_recordset(new.receipts) AS r ({{receipts: $name $type}})
      ORDER BY caller COLLATE "C", command_id COLLATE "C";
  END IF;

  IF new.usage IS NOT NULL THEN
    INSERT INTO usage AS u (floor_key, {{usage_keys: $name}}, {{usage: $name}})
      SELECT this, {{usage_keys: $name}}, {{usage: $name}}
        FROM json_to_recordset(new.usage) AS c ({{usage_keys: $name $type}}, {{usage: $name $type}})
      ON CONFLICT (floor_key, {{usage_keys: $name}}) DO UPDATE SET {{usage: $name = u.$name + excluded.$name}};
  END IF;

  IF new.deleted IS NOT NULL THEN PERFORM delete_sessions(this, new.deleted); END IF;
  -- W9: after the deletions, which end the lanes of their sessions.
  IF new.notices IS NOT NULL THEN PERFORM add_notices(this, new.notices); END IF;
  RETURN true;
END $$;
