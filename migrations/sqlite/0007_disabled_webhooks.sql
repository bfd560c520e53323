-- Webhooks whose receiver answered that it is gone. Nothing is sent to it until an operator enables the webhook, or the
-- file names another address.
CREATE TABLE webhooks_disabled (
  hook     TEXT    NOT NULL,
  -- A hash of its address.
  receiver TEXT    NOT NULL,
  -- When it answered so first, in the floors' time.
  at       INTEGER NOT NULL,
  PRIMARY KEY (hook, receiver)
) STRICT, WITHOUT ROWID;
