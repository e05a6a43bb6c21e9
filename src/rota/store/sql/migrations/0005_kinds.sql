-- oldest: 1
-- Commands, coroutines and hooks. Where the code behind a live claim writes what it says; its run keeps the paths once the
-- claim ends. Workers with several jobs in hand: whoever was among them when one died runs next alone.

ALTER TABLE job ADD COLUMN transcript_path TEXT;
ALTER TABLE job ADD COLUMN stderr_path TEXT;
ALTER TABLE job ADD COLUMN isolated $int64 NOT NULL DEFAULT 0;
ALTER TABLE worker ADD COLUMN concurrency $int64 NOT NULL DEFAULT 1;
