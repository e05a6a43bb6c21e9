-- oldest: 1
-- Hosts that reach only the HTTP API: the access token that speaks for an orchestrator there.

ALTER TABLE orchestrator ADD COLUMN access TEXT;
