-- name: mark
-- Up to when deaths were counted.
SELECT died_until FROM metric_mark WHERE id = 1

-- name: advance
-- Move the mark; no row means that somebody else has counted meanwhile.
UPDATE metric_mark SET died_until = :died_until WHERE id = 1 AND died_until = :old_died RETURNING id

-- name: add
-- Add to a kept count.
INSERT INTO metric (name, queue, label, bucket, n, total) VALUES (:name, :queue, :label, :bucket, :n, :total)
ON CONFLICT (name, queue, label, bucket, shard) DO UPDATE SET n = metric.n + excluded.n, total = metric.total + excluded.total

-- name: all
-- All kept counts.
SELECT name, queue, label, bucket, CAST(sum(n) AS $int64), CAST(sum(total) AS $int64) FROM metric
GROUP BY name, queue, label, bucket ORDER BY name, queue, label, bucket

-- name: gather
-- Merge the counts that transactions of callers keep in shards of their own (decision 18). On SQLite there are none.
DELETE FROM metric WHERE shard >= :from_shard AND n = 0

-- name: deaths
-- How many workers died in a stretch of time, by reason.
SELECT reason, count(*), max(died_at) FROM certificate WHERE died_at > :after AND died_at <= :until GROUP BY reason

-- name: took
-- How long the last runs took, by queue, within a window of the newest, so that a long history costs nothing.
SELECT queue, count(*), CAST(sum(took) AS $int64) FROM (
    SELECT job.queue AS queue, newest.took AS took,
        row_number() OVER (PARTITION BY job.queue ORDER BY newest.token DESC) AS place
    FROM (SELECT token, job, ended_at - claimed_at AS took FROM run WHERE verb = 'finish' ORDER BY token DESC LIMIT :window)
        AS newest
    JOIN job ON job.id = newest.job
) AS placed WHERE place <= :most GROUP BY queue
