-- name: get
-- One source.
SELECT $source_columns FROM source WHERE name = :name

-- name: lock
-- One source, locked to be changed.
SELECT $source_columns FROM source WHERE name = :name $for_update

-- name: all
-- Every source.
SELECT $source_columns FROM source ORDER BY name

-- name: make
-- Insert a source when it is first declared.
INSERT INTO source (name, queue, task, every, low, batch, repeats, filler, created_at)
VALUES (:name, :queue, :task, :every, :low, :batch, :repeats, :filler, :now)

-- name: set
-- Change what a source declares.
UPDATE source SET queue = :queue, task = :task, every = :every, low = :low, batch = :batch, repeats = :repeats,
    filler = :filler WHERE name = :name

-- name: forget
-- Delete a source with its counters.
DELETE FROM source WHERE name = :name

-- name: forget_memory
-- Delete what is remembered of a source's keys.
DELETE FROM source_memory WHERE source = :name

-- name: waiting_of
-- The jobs of a source that nobody has started.
SELECT id, queue, status FROM job
WHERE source = :source AND key IS NOT NULL AND status IN ('blocked', 'scheduled', 'ready') ORDER BY id LIMIT :most $for_update

-- name: make_filler
-- Insert the internal job that fills a source's queue and never ends by itself (decision 16).
INSERT INTO job (id, queue, kind, title, priority, status, source, max_attempts, created_at)
VALUES (:id, :queue, :kind, :title, 0, 'ready', :source, :max_attempts, :now)

-- name: add
-- Insert a job for a key.
INSERT INTO job (id, queue, kind, title, payload, priority, status, key, source, max_attempts, timeout, created_at)
VALUES (:id, :queue, :kind, :title, :payload, :priority, 'ready', :key, :source, :max_attempts, :timeout, :now)

-- name: known
-- Keys that have a job: it waits, runs, or is kept because it failed or was cancelled.
SELECT key FROM job WHERE source = :source AND key = :key

-- name: held
-- Keys whose jobs are running, found by their state and not by their source, which may have very many jobs.
SELECT key FROM job WHERE status = 'active' AND worker IS NOT NULL AND source || '' = :source AND key IS NOT NULL

-- name: recall
-- What is remembered of keys that succeeded.
SELECT hash, successes, at, reported FROM source_memory WHERE source = :source AND hash = :hash

-- name: remember
-- Note that a key succeeded once more.
INSERT INTO source_memory (source, hash, successes, at, token) VALUES (:source, :hash, 1, :now, :token)
ON CONFLICT (source, hash) DO UPDATE SET successes = source_memory.successes + 1, at = excluded.at, token = excluded.token

-- name: mark_reported
-- Mark a repeated key as reported; no row means that it was already.
UPDATE source_memory SET reported = 1 WHERE source = :source AND hash = :hash AND reported = 0 RETURNING hash

-- name: settled_by
-- Whether a job of a source was finished with this token.
SELECT 1 FROM source_memory WHERE token = :token

-- name: count_memory
-- How many keys of a source are remembered.
SELECT count(*) FROM source_memory WHERE source = :source

-- name: forget_keys
-- Delete the keys that succeeded longest ago, except those that the current pass may be about to read.
DELETE FROM source_memory WHERE source = :source AND hash IN
    (SELECT hash FROM source_memory WHERE source = :source AND at < :before ORDER BY token LIMIT :most)

-- name: count_ready
-- How many jobs of a source can be claimed, up to a bound; its filler does not count.
SELECT count(*) FROM (SELECT 1 FROM job WHERE source = :source AND status = 'ready' AND key IS NOT NULL LIMIT :most) AS found

-- name: wake_filler
-- Let the filler run now instead of at its time.
UPDATE job SET status = 'ready', due_at = NULL WHERE id = :id AND status = 'scheduled' RETURNING id

-- name: refresh_filler
-- Reset the filler's failures after a pass that went well.
UPDATE job SET attempts = 0, deaths = 0, lapses = 0, error = NULL WHERE id = :id

-- name: filled
-- Note what a pass did. `more`: the source had not come to its end.
UPDATE source SET more = :more, fill_count = fill_count + 1, added_count = added_count + :added, last_fill_at = :now,
    last_fill_error = NULL, repeated_count = repeated_count + :repeated,
    last_repeated_key = coalesce(CAST(:repeated_key AS TEXT), last_repeated_key)
WHERE name = :name

-- name: fill_failed
-- Note that a pass failed.
UPDATE source SET more = 0, last_fill_error = :error WHERE name = :name

-- name: succeeded
-- Count finished jobs of a source.
UPDATE source SET success_count = success_count + :count, last_success_at = :now, last_success_worker = :worker
WHERE name = :name

-- name: failed
-- Count a failed attempt at a job of a source.
UPDATE source SET error_count = error_count + 1, last_error_at = :now, last_error_message = :error,
    last_error_worker = :worker
WHERE name = :name

-- name: let_go
-- Keep a finished job that others wait for as an ordinary one, so that its key may come again.
UPDATE job SET source = NULL, key = NULL WHERE id = :id

-- name: counts
-- The jobs of every source by state, without its filler.
SELECT source, status, count(*) FROM job WHERE source IS NOT NULL AND key IS NOT NULL GROUP BY source, status
