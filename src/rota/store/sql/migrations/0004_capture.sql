-- oldest: 1
-- Where the code behind a live claim writes what it says; its run keeps the paths once the claim ends.

ALTER TABLE job ADD COLUMN transcript_path TEXT;
ALTER TABLE job ADD COLUMN stderr_path TEXT;
