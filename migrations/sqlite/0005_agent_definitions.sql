-- Agents that operators define for a workspace. `body` is what the definition says, as JSON; nothing in it is executed.
CREATE TABLE agent_definitions (
  id      TEXT    PRIMARY KEY,
  version INTEGER NOT NULL,
  body    TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
-- Rises with each change of a definition, so that nodes notice one by reading a single row.
ALTER TABLE meta ADD COLUMN definitions_version INTEGER NOT NULL DEFAULT 0;
