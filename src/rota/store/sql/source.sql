-- name: get
-- One source.
SELECT $source_columns FROM source WHERE name = :name

-- name: lock
-- One source, about to be changed.
SELECT $source_columns FROM source WHERE name = :name $for_update

-- name: all
-- Every source.
SELECT $source_columns FROM source ORDER BY name

-- name: make
-- A source that was never declared before.
INSERT INTO source (name, queue, task, every, low, batch, repeats, filler, created_at)
VALUES (:name, :queue, :task, :every, :low, :batch, :repeats, :filler, :now)

-- name: set
-- A source was declared in another way.
UPDATE source SET queue = :queue, task = :task, every = :every, low = :low, batch = :batch, repeats = :repeats,
    filler = :filler WHERE name = :name

-- name: forget
-- It is declared no more; its counters go with it.
DELETE FROM source WHERE name = :name

-- name: forget_memory
-- So does what is known of its keys.
DELETE FROM source_memory WHERE source = :name

-- name: waiting_of
-- The jobs of a source that nobody has begun.
SELECT id, queue, status FROM job
WHERE source = :source AND key IS NOT NULL AND status IN ('blocked', 'scheduled', 'ready') ORDER BY id LIMIT :most $for_update

-- name: make_filler
-- The internal job that fills a source's queue, again and again; it never ends by itself.
INSERT INTO job (id, queue, kind, title, priority, status, source, max_attempts, created_at)
VALUES (:id, :queue, :kind, :title, 0, 'ready', :source, :max_attempts, :now)

-- name: add
-- A key becomes a job.
INSERT INTO job (id, queue, kind, title, payload, priority, status, key, source, max_attempts, timeout, created_at)
VALUES (:id, :queue, :kind, :title, :payload, :priority, 'ready', :key, :source, :max_attempts, :timeout, :now)

-- name: known
-- Keys that have a job: it waits, runs, or is kept because it failed or was cancelled.
SELECT key FROM job WHERE source = :source AND key = :key

-- name: held
-- Keys whose jobs are in hand; found by that, not by their source, which may have very many.
SELECT key FROM job WHERE status = 'active' AND worker IS NOT NULL AND source || '' = :source AND key IS NOT NULL

-- name: recall
-- What is remembered of keys that succeeded.
SELECT hash, successes, at, told FROM source_memory WHERE source = :source AND hash = :hash

-- name: remember
-- A key succeeded once more.
INSERT INTO source_memory (source, hash, successes, at, token) VALUES (:source, :hash, 1, :now, :token)
ON CONFLICT (source, hash) DO UPDATE SET successes = source_memory.successes + 1, at = excluded.at, token = excluded.token

-- name: told
-- People were told that this key comes again and again.
UPDATE source_memory SET told = 1 WHERE source = :source AND hash = :hash AND told = 0 RETURNING hash

-- name: settled_by
-- Whether a job of a source was finished with this token.
SELECT 1 FROM source_memory WHERE token = :token

-- name: count_memory
-- How many keys are remembered.
SELECT count(*) FROM source_memory WHERE source = :source

-- name: forget_keys
-- Forget the keys that succeeded longest ago, unless one that is being read now could be among them.
DELETE FROM source_memory WHERE source = :source AND hash IN
    (SELECT hash FROM source_memory WHERE source = :source AND at < :before ORDER BY token LIMIT :most)

-- name: count_ready
-- How many jobs of a source can be claimed, as far as that matters; its filler is none.
SELECT count(*) FROM (SELECT 1 FROM job WHERE source = :source AND status = 'ready' AND key IS NOT NULL LIMIT :most) AS found

-- name: wake_filler
-- Let the filler run now instead of at its time.
UPDATE job SET status = 'ready', due_at = NULL WHERE id = :id AND status = 'scheduled' RETURNING id

-- name: refresh_filler
-- A pass went well: earlier trouble is forgiven.
UPDATE job SET attempts = 0, deaths = 0, lapses = 0, error = NULL WHERE id = :id

-- name: filled
-- What a pass did. `more`: the source had not come to its end.
UPDATE source SET more = :more, fill_count = fill_count + 1, added_count = added_count + :added, last_fill_at = :now,
    last_fill_error = NULL, repeated_count = repeated_count + :repeated,
    last_repeated_key = coalesce(CAST(:repeated_key AS TEXT), last_repeated_key)
WHERE name = :name

-- name: fill_failed
-- A pass did not come to its end.
UPDATE source SET more = 0, last_fill_error = :error WHERE name = :name

-- name: succeeded
-- Jobs of a source were finished.
UPDATE source SET success_count = success_count + :count, last_success_at = :now, last_success_worker = :worker
WHERE name = :name

-- name: failed
-- An attempt at a job of a source failed.
UPDATE source SET error_count = error_count + 1, last_error_at = :now, last_error_message = :error,
    last_error_worker = :worker
WHERE name = :name

-- name: let_go
-- A finished job that others wait for is kept, and its key may come again.
UPDATE job SET source = NULL, key = NULL WHERE id = :id

-- name: counts
-- The jobs of every source by state, without its filler.
SELECT source, status, count(*) FROM job WHERE source IS NOT NULL AND key IS NOT NULL GROUP BY source, status
