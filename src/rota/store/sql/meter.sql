-- name: mark
-- Up to where runs and deaths were counted; the claims that lived then are still to be counted when they end.
SELECT token, open_tokens, died_until FROM meter_mark WHERE id = 1

-- name: advance
-- Move the mark; no row means that somebody else has counted meanwhile.
UPDATE meter_mark SET token = :token, open_tokens = :open_tokens, died_until = :died_until
WHERE id = 1 AND token = :old_token AND open_tokens = :old_open AND died_until = :old_died RETURNING id

-- name: add
-- Count further ones.
INSERT INTO meter (name, queue, label, bucket, n, total) VALUES (:name, :queue, :label, :bucket, :n, :total)
ON CONFLICT (name, queue, label, bucket) DO UPDATE SET n = meter.n + excluded.n, total = meter.total + excluded.total

-- name: all
-- Everything counted so far.
SELECT name, queue, label, bucket, n, total FROM meter ORDER BY name, queue, label, bucket

-- name: live
-- The tokens of the live claims.
SELECT token FROM job WHERE status = 'active' AND worker > '' ORDER BY token

-- name: ended
-- The ended claims of a stretch of tokens: how each ended, and how long it took.
SELECT job.queue, run.verb, $run_bucket AS bucket, count(*), sum(run.ended_at - run.claimed_at)
FROM run JOIN job ON job.id = run.job WHERE run.token > :after AND run.token <= :until
GROUP BY job.queue, run.verb, bucket

-- name: picked_up
-- How long the jobs of those claims had waited for their first; what waited for its time does not count.
SELECT job.queue, $pickup_bucket AS bucket, count(*), sum(run.claimed_at - job.created_at)
FROM run JOIN job ON job.id = run.job
WHERE run.token > :after AND run.token <= :until AND run.attempt = 1 AND run.generation = 1
    AND (job.due_at IS NULL OR job.due_at > run.claimed_at)
GROUP BY job.queue, bucket

-- name: deaths
-- The deaths of a stretch of time, by reason.
SELECT reason, count(*), max(died_at) FROM certificate WHERE died_at > :after AND died_at <= :until GROUP BY reason

-- name: took
-- How long the last runs took, by queue; of a window of the newest, so that a long history costs nothing.
SELECT queue, count(*), CAST(sum(took) AS $int64) FROM (
    SELECT job.queue AS queue, newest.took AS took,
        row_number() OVER (PARTITION BY job.queue ORDER BY newest.token DESC) AS place
    FROM (SELECT token, job, ended_at - claimed_at AS took FROM run WHERE verb = 'finish' ORDER BY token DESC LIMIT :window)
        AS newest
    JOIN job ON job.id = newest.job
) AS placed WHERE place <= :most GROUP BY queue
