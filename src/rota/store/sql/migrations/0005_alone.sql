-- oldest: 1
-- Workers with several jobs in hand: whoever was among them when one died runs next alone, so that a death has one cause.

ALTER TABLE job ADD COLUMN alone $int64 NOT NULL DEFAULT 0;
ALTER TABLE worker ADD COLUMN concurrency $int64 NOT NULL DEFAULT 1;
