-- Agents that operators define for a workspace. `body` is what the definition says, as JSON; nothing in it is executed.
CREATE TABLE agent_definitions (
  id      text   COLLATE "C" PRIMARY KEY,
  version bigint NOT NULL,
  body    text   NOT NULL
);
-- Rises with each change of a definition, so that nodes notice one by reading a single row.
ALTER TABLE meta ADD COLUMN definitions_version bigint NOT NULL DEFAULT 0;
-- Receipts of writes that belong to no floor name this one. Its empty id comes before every other, so no list shows it.
INSERT INTO floors (floor_key, id, version, head, format, flags, snapshot) OVERRIDING SYSTEM VALUE
  VALUES (0, '', 0, 0, 0, '{}', '{}');
