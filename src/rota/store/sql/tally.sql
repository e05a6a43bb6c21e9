-- name: add
-- Change the kept count of a queue's jobs in one state.
INSERT INTO tally (queue, status, n) VALUES (:queue, :status, :change)
ON CONFLICT (queue, status, shard) DO UPDATE SET n = tally.n + excluded.n

-- name: of_queue
-- The kept counts of one queue.
SELECT status, CAST(sum(n) AS $int64) FROM tally WHERE queue = :queue GROUP BY status

-- name: all
-- The kept counts of every queue.
SELECT queue, status, CAST(sum(n) AS $int64) FROM tally GROUP BY queue, status

-- name: true
-- The counts of the rows themselves. Slow: only for a check.
SELECT queue, status, count(*) FROM job GROUP BY queue, status

-- name: gather
-- Merge the counts that transactions of callers keep in shards of their own (decision 18). On SQLite there are none.
DELETE FROM tally WHERE shard >= :from_shard AND n = 0
