-- oldest: 1
-- What a running crew shows and is told: the health of a slot's worker, starts in a row that never came up, a directive to drain.

ALTER TABLE slot ADD COLUMN health TEXT;
ALTER TABLE slot ADD COLUMN unstarted $int64 NOT NULL DEFAULT 0;
ALTER TABLE orchestrator ADD COLUMN desired TEXT;
