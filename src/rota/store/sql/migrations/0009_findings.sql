-- oldest: 9
-- What was found when the first release was tried. Older programs on PostgreSQL take another lock as the gate.

-- The access token that named the files of a run over HTTP (null: a program beside the database did).
ALTER TABLE job ADD COLUMN captured_by TEXT;
ALTER TABLE run ADD COLUMN captured_by TEXT;

-- A job whose kind its worker does not know waits for one that does, until a moment; what kinds each worker declared, as a
-- JSON list, or true for all.
ALTER TABLE job ADD COLUMN unknown_until $int64;
ALTER TABLE worker ADD COLUMN kinds TEXT;
CREATE INDEX job_unknown ON job (queue, kind, id) WHERE status = 'blocked' AND blocked_on = 'kind';
CREATE INDEX job_unknown_until ON job (unknown_until) WHERE status = 'blocked' AND unknown_until IS NOT NULL;
-- SQLite cannot change a check, but its text may be widened in place: every row that is there still fits.
$sqlite PRAGMA writable_schema = ON;
$sqlite UPDATE sqlite_schema SET sql = replace(sql, 'blocked_on = ''limit''', 'blocked_on = ''limit'' OR blocked_on = ''kind''')
$sqlite     WHERE type = 'table' AND name = 'job';
$sqlite PRAGMA writable_schema = RESET;
$postgres ALTER TABLE job DROP CONSTRAINT job_blocked_on_check;
$postgres ALTER TABLE job ADD CONSTRAINT job_blocked_on_check
$postgres     CHECK (blocked_on IS NULL OR blocked_on = 'dependency' OR blocked_on = 'limit' OR blocked_on = 'kind') NOT VALID;
-- What was found when the first release was tried.

-- Runs are counted when they end, in counters that are split as those of queues are; those not counted yet are counted here
-- for the last time. Of the mark only `died_until` is used any more.
CREATE TABLE metric_split (
    name TEXT NOT NULL,
    queue TEXT NOT NULL,
    label TEXT NOT NULL,
    bucket $int64 NOT NULL,
    shard $int64 NOT NULL DEFAULT 0,
    n $int64 NOT NULL,
    total $int64 NOT NULL,
    PRIMARY KEY (name, queue, label, bucket, shard)
);
INSERT INTO metric_split (name, queue, label, bucket, n, total) SELECT name, queue, label, bucket, n, total FROM metric;
INSERT INTO metric_split (name, queue, label, bucket, n, total)
SELECT 'run', job.queue, run.verb, $run_bucket AS place, count(*), sum(run.ended_at - run.claimed_at)
FROM run JOIN job ON job.id = run.job JOIN metric_mark ON run.token > metric_mark.token
    OR replace(replace(replace(open_tokens, '[', ','), ']', ','), ' ', '') LIKE '%,' || run.token || ',%'
WHERE metric_mark.id = 1 GROUP BY job.queue, run.verb, place
ON CONFLICT (name, queue, label, bucket, shard) DO UPDATE SET n = metric_split.n + excluded.n, total = metric_split.total + excluded.total;
INSERT INTO metric_split (name, queue, label, bucket, n, total)
SELECT 'pickup', job.queue, '', $pickup_bucket AS place, count(*), sum(run.claimed_at - job.created_at)
FROM run JOIN job ON job.id = run.job JOIN metric_mark ON run.token > metric_mark.token
    OR replace(replace(replace(open_tokens, '[', ','), ']', ','), ' ', '') LIKE '%,' || run.token || ',%'
WHERE metric_mark.id = 1 AND run.attempt = 1 AND run.generation = 1 AND (job.due_at IS NULL OR job.due_at > run.claimed_at)
GROUP BY job.queue, place
ON CONFLICT (name, queue, label, bucket, shard) DO UPDATE SET n = metric_split.n + excluded.n, total = metric_split.total + excluded.total;
DROP TABLE metric;
ALTER TABLE metric_split RENAME TO metric;
-- The ids of workers that were made for an orchestrator over HTTP and that it has not used.
ALTER TABLE orchestrator ADD COLUMN worker_ids TEXT;

-- The access token that declared a schedule over HTTP.
ALTER TABLE schedule ADD COLUMN access TEXT;
