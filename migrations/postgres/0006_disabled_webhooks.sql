-- Webhooks whose receiver answered that it is gone. Nothing is sent to it until an operator enables the webhook, or the
-- file names another address.
CREATE TABLE webhooks_disabled (
  hook     text   COLLATE "C" NOT NULL,
  -- A hash of its address.
  receiver text   COLLATE "C" NOT NULL,
  -- When it answered so first, in the floors' time.
  at       bigint NOT NULL,
  PRIMARY KEY (hook, receiver)
);
