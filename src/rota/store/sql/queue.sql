-- name: make
-- Make a queue when it is first named.
INSERT INTO queue (name, created_at) VALUES (:queue, :now) ON CONFLICT (name) DO NOTHING RETURNING name

-- name: get
-- One queue with its limits.
SELECT $queue_columns FROM queue WHERE name = :queue

-- name: lock
-- One queue with its limits, locked for a claim that counts against them.
SELECT $queue_columns FROM queue WHERE name = :queue $for_update

-- name: all
-- Every queue; the row named * stands for all of them.
SELECT $queue_columns FROM queue ORDER BY name

-- name: set
-- Write a queue's limits.
UPDATE queue SET max_depth = :max_depth, rate = :rate, concurrency = :concurrency, per_key = :per_key,
    breaker = :breaker, fence = :fence WHERE name = :queue

-- name: pause
-- Pause a queue; one that is paused already stays as it is.
UPDATE queue SET paused_at = :now, paused_by = :by, pause_reason = :reason WHERE name = :queue AND paused_at IS NULL RETURNING name

-- name: resume
-- Resume a queue and reset its count of failures.
UPDATE queue SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, failures = 0
WHERE name = :queue AND paused_at IS NOT NULL RETURNING name

-- name: spend_rate
-- Write when the rate allows the next claim.
UPDATE queue SET rate_next_at = :rate_next_at WHERE name = :queue

-- name: count_failures
-- Count failures in a row.
UPDATE queue SET failures = CASE WHEN :failed = 0 THEN 0 ELSE failures + :failed END WHERE name = :queue RETURNING failures

-- name: oldest_ready
-- Since when the longest waiting of a queue's best ready jobs waits.
SELECT min(created_at) FROM (SELECT created_at FROM job WHERE queue = :queue AND status = 'ready' ORDER BY priority DESC, id LIMIT 100) AS best
