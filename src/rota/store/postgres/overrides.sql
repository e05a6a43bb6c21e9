-- name: number.draw_many
-- Job ids and tokens come from sequences, so that those who draw do not wait for each other.
SELECT number, number FROM (
    SELECT nextval(sequence) AS number FROM (SELECT CAST('number_' || :name AS regclass) AS sequence OFFSET 0) AS named, generate_series(1, :count)
) AS drawn ORDER BY 1

-- name: number.leave_out
SELECT setval(sequence, nextval(sequence) + :count) FROM (SELECT CAST('number_' || :name AS regclass) AS sequence) AS named

-- name: number.last
SELECT coalesce(pg_sequence_last_value(CAST('number_' || :name AS regclass)), 0)

-- name: claim.pick
-- Each token is drawn while its row is locked, so that a job's tokens only grow.
SELECT id, kind, title, payload, priority, attempts, max_attempts, timeout, checkpoint, token, source, key, trace, scheduled_for,
    CAST(extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000000 AS bigint), isolated, nextval('number_token')
FROM (
    SELECT * FROM job
    WHERE queue = :queue AND status = 'ready' ORDER BY priority DESC, id LIMIT :most FOR UPDATE SKIP LOCKED
) AS picked

-- name: claim.pick_counted
-- As `claim.pick`, with how long the scan took if it read hundreds of pages: otherwise the server was only busy
-- (decision 29).
SELECT id, kind, title, payload, priority, attempts, max_attempts, timeout, checkpoint, token, source, key, trace, scheduled_for,
    CASE WHEN pg_stat_get_xact_blocks_fetched(CAST('job' AS regclass)) - before.pages > 500
    THEN CAST(extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000000 AS bigint) ELSE 0 END,
    isolated, nextval('number_token')
FROM (SELECT pg_stat_get_xact_blocks_fetched(CAST('job' AS regclass)) AS pages OFFSET 0) AS before CROSS JOIN LATERAL (
    SELECT * FROM job WHERE queue = :queue AND status = 'ready' AND before.pages >= 0
    ORDER BY priority DESC, id LIMIT :most FOR UPDATE SKIP LOCKED
) AS picked

-- name: claim.pick_behind
-- As `claim.pick`, without the jobs that it walks past: up to this job, and those of a higher priority that are not
-- newer.
SELECT id, kind, title, payload, priority, attempts, max_attempts, timeout, checkpoint, token, source, key, trace, scheduled_for,
    0, isolated, nextval('number_token')
FROM (
    SELECT * FROM (
        SELECT * FROM (
            SELECT * FROM job WHERE queue = :queue AND status = 'ready' AND priority > :priority AND id > :newest
            ORDER BY priority DESC, id LIMIT :most FOR UPDATE SKIP LOCKED
        ) AS above
        UNION ALL
        SELECT * FROM (
            SELECT * FROM job WHERE queue = :queue AND status = 'ready' AND priority = :priority AND id > :id
            ORDER BY priority DESC, id LIMIT :most FOR UPDATE SKIP LOCKED
        ) AS behind
        UNION ALL
        SELECT * FROM (
            SELECT * FROM job WHERE queue = :queue AND status = 'ready' AND priority < :priority
            ORDER BY priority DESC, id LIMIT :most FOR UPDATE SKIP LOCKED
        ) AS below
    ) AS found LIMIT :most
) AS picked

-- name: tally.add many
-- Counters are split into shards, so that concurrent transactions rarely change the same row.
INSERT INTO tally (queue, status, shard, n)
SELECT queue, status, $shard, change FROM unnest(:queue::text[], :status::text[], :change::bigint[]) AS made (queue, status, change)
ON CONFLICT (queue, status, shard) DO UPDATE SET n = tally.n + excluded.n

-- name: tally.gather
-- Rows locked by other transactions are left for the next time.
WITH gone AS (
    DELETE FROM tally WHERE (queue, status, shard) IN
        (SELECT queue, status, shard FROM tally WHERE shard >= :from_shard FOR UPDATE SKIP LOCKED)
    RETURNING queue, status, n
)
INSERT INTO tally (queue, status, shard, n) SELECT queue, status, 0, sum(n) FROM gone GROUP BY queue, status
ON CONFLICT (queue, status, shard) DO UPDATE SET n = tally.n + excluded.n RETURNING queue

-- name: metric.add many
INSERT INTO metric (name, queue, label, bucket, shard, n, total)
SELECT name, queue, label, bucket, $shard, n, total
FROM unnest(:name::text[], :queue::text[], :label::text[], :bucket::bigint[], :n::bigint[], :total::bigint[])
    AS made (name, queue, label, bucket, n, total)
ON CONFLICT (name, queue, label, bucket, shard) DO UPDATE SET n = metric.n + excluded.n, total = metric.total + excluded.total

-- name: metric.gather
-- Rows locked by other transactions are left for the next time.
WITH gone AS (
    DELETE FROM metric WHERE (name, queue, label, bucket, shard) IN
        (SELECT name, queue, label, bucket, shard FROM metric WHERE shard >= :from_shard FOR UPDATE SKIP LOCKED)
    RETURNING name, queue, label, bucket, n, total
)
INSERT INTO metric (name, queue, label, bucket, shard, n, total)
SELECT name, queue, label, bucket, 0, sum(n), sum(total) FROM gone GROUP BY name, queue, label, bucket
ON CONFLICT (name, queue, label, bucket, shard) DO UPDATE SET n = metric.n + excluded.n, total = metric.total + excluded.total

-- name: job.insert many
INSERT INTO job (id, queue, kind, title, payload, priority, status, blocked_on, due_at, due_wall, key, limit_key, parent,
    max_attempts, timeout, created_at, trace)
SELECT * FROM unnest(:id::bigint[], :queue::text[], :kind::text[], :title::text[], :payload::text[], :priority::bigint[],
    :status::text[], :blocked_on::text[], :due_at::bigint[], :due_wall::bigint[], :key::text[], :limit_key::text[],
    :parent::bigint[], :max_attempts::bigint[], :timeout::bigint[], :created_at::bigint[], :trace::text[])

-- name: job.add_plain
-- Add one job that waits for nothing, with its count and its event, unless its queue is new or may be full, or the
-- token was revoked (decision 25).
WITH known AS (
    SELECT name FROM queue WHERE name = :queue AND max_depth IS NULL
        AND (CAST(:access AS text) IS NULL OR EXISTS (SELECT 1 FROM token WHERE id = :access AND revoked_at IS NULL))
),
made AS (
    INSERT INTO job (id, queue, kind, title, payload, priority, status, due_wall, max_attempts, timeout, created_at, trace)
    SELECT nextval('number_job'), name, :kind, :title, :payload, :priority, 'ready', 0, :max_attempts, :timeout,
        CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint), :trace FROM known
    RETURNING id, created_at
),
counted AS (
    INSERT INTO tally (queue, status, shard, n) SELECT :queue, 'ready', $shard, 1 FROM made
    ON CONFLICT (queue, status, shard) DO UPDATE SET n = tally.n + 1
),
told AS (
    INSERT INTO event (at, actor, facts)
    SELECT created_at, :actor, '[["job","add",' || to_json(:queue::text) || ',null,"ready",[' || id || ']]]' FROM made
)
SELECT id FROM made

-- name: job.some
SELECT $job_columns FROM job WHERE id = ANY (ARRAY(SELECT value::bigint FROM json_array_elements_text(:ids::json)))

-- name: job.relations
SELECT 'after' AS kind, job, needs FROM dependency
WHERE job = ANY (ARRAY(SELECT value::bigint FROM json_array_elements_text(:ids::json)))
UNION ALL SELECT 'child', parent, id FROM job
WHERE parent = ANY (ARRAY(SELECT value::bigint FROM json_array_elements_text(:ids::json))) ORDER BY 1, 2, 3

-- name: job.make_ready many
UPDATE job SET status = 'ready', blocked_on = NULL FROM (VALUES ('blocked'), ('scheduled')) AS was (status)
WHERE id = ANY (:id::bigint[]) AND job.status = was.status

-- name: job.forget many
DELETE FROM job WHERE id = ANY (:id::bigint[])

-- name: job.awaited many
SELECT DISTINCT dependency.needs FROM dependency JOIN job AS waiting ON waiting.id = dependency.job
WHERE dependency.needs = ANY (:id::bigint[]) AND waiting.status NOT IN ('done', 'failed', 'cancelled')

-- name: job.forget_runs many
DELETE FROM run WHERE job = ANY (:id::bigint[]) RETURNING token

-- name: job.forget_dependencies many
DELETE FROM dependency WHERE job = ANY (:id::bigint[]) OR needs = ANY (:id::bigint[])

-- name: claim.take_all
-- Here and below, the state is looked up instead of compared with a constant, and what belongs to a row is not joined.
-- So every plan finds each job by its id, and none walks an index of all jobs in that state (decision 25).
UPDATE job SET status = 'active', token = ((SELECT :tokens::jsonb) ->> id::text)::bigint, worker = :worker,
    orchestrator = :orchestrator, claimed_at = :now, lease = NULL, lease_expires_at = NULL, renewed_count = 0
WHERE id = ANY (ARRAY(SELECT key::bigint FROM json_object_keys(:tokens::json) AS key))
    AND status = (SELECT 'ready' OFFSET 0)

-- name: claim.holding
SELECT job.id, job.token, queue, worker, dependents, limit_key, source, key,
    claimed_at, created_at, attempts, generation, due_at FROM job, (SELECT 'active' AS status OFFSET 0) AS was
WHERE job.id = ANY (ARRAY(SELECT value::bigint FROM json_array_elements_text(:ids::json))) AND job.status = was.status
ORDER BY job.id FOR UPDATE OF job

-- name: claim.record_done
INSERT INTO run (token, job, worker, attempt, generation, claimed_at, ended_at, verb, reason, error, note, renewed_count,
    transcript_path, stderr_path, captured_by)
SELECT token, id, worker, attempts + 1, generation, claimed_at, :now::bigint, 'finish', NULL, NULL, NULL, renewed_count,
    transcript_path, stderr_path, captured_by
FROM job, (SELECT 'active' AS status OFFSET 0) AS was
WHERE id = ANY (ARRAY(SELECT value::bigint FROM json_array_elements_text(:ids::json))) AND job.status = was.status

-- name: claim.finish
UPDATE job SET status = 'done', result = (SELECT :results::jsonb) ->> id::text, error = NULL, note = NULL, finished_at = :now, attempts = attempts + 1,
    transcript_path = NULL, stderr_path = NULL, isolated = 0
WHERE id = ANY (ARRAY(SELECT key::bigint FROM json_object_keys(:results::json) AS key))
    AND status = (SELECT 'active' OFFSET 0)

-- name: claim.put_back many
UPDATE job SET status = 'ready', blocked_on = NULL, due_at = NULL, due_wall = 0, result = NULL, error = NULL, note = NULL,
    finished_at = NULL, transcript_path = NULL, stderr_path = NULL
FROM unnest(:id::bigint[], :token::bigint[]) AS held (id, token), (SELECT 'active' AS status OFFSET 0) AS was
WHERE job.id = held.id AND job.token = held.token AND job.status = was.status AND limit_key IS NULL AND source IS NULL AND NOT EXISTS
    (SELECT 1 FROM dependency JOIN job AS needed ON needed.id = dependency.needs
    WHERE dependency.job = job.id AND needed.status <> 'done')
RETURNING job.id

-- name: claim.set_aside many
UPDATE job SET status = 'blocked', blocked_on = 'kind', unknown_until = held.until, note = held.note, due_at = NULL, due_wall = 0,
    result = NULL, error = NULL, finished_at = NULL, transcript_path = NULL, stderr_path = NULL
FROM unnest(:until::bigint[], :note::text[], :id::bigint[], :token::bigint[]) AS held (until, note, id, token),
    (SELECT 'active' AS status OFFSET 0) AS was
WHERE job.id = held.id AND job.token = held.token AND job.status = was.status AND limit_key IS NULL AND source IS NULL
RETURNING job.id, job.token, queue, worker

-- name: claim.record many
INSERT INTO run (token, job, worker, attempt, generation, claimed_at, ended_at, verb, reason, error, note, renewed_count)
SELECT * FROM unnest(:token::bigint[], :job::bigint[], :worker::text[], :attempt::bigint[], :generation::bigint[],
    :claimed_at::bigint[], :ended_at::bigint[], :verb::text[], :reason::text[], :error::text[], :note::text[], :renewed_count::bigint[])

-- name: worker.exchanged many
UPDATE worker SET success_count = success_count + (:succeeded::bigint[])[array_position(:id::text[], id)],
    current_job = (:job::bigint[])[array_position(:id::text[], id)],
    status = CASE WHEN status = 'stopping' THEN status ELSE 'busy' END
WHERE id = ANY (:id::text[]) AND status NOT IN ('stopped', 'dead')

-- name: worker.prune_certificates many
DELETE FROM certificate WHERE worker = ANY (:id::text[])

-- name: locks.jobs many
SELECT $job_columns FROM job WHERE id = ANY (:id::bigint[]) ORDER BY id FOR UPDATE

-- name: locks.free_worker many
SELECT id FROM worker WHERE id = ANY (:id::text[]) ORDER BY id FOR UPDATE SKIP LOCKED

-- name: locks.free_scheduled many
SELECT id FROM job JOIN (SELECT 'scheduled' AS status OFFSET 0) AS was ON job.status = was.status
WHERE id = ANY (:id::bigint[]) ORDER BY id FOR UPDATE OF job SKIP LOCKED

-- name: locks.queue_of many
SELECT DISTINCT queue FROM job WHERE id = ANY (:id::bigint[])

-- name: dependency.add many
INSERT INTO dependency (job, needs, until_over) SELECT * FROM unnest(:job::bigint[], :needs::bigint[], :until_over::bigint[])
ON CONFLICT (job, needs) DO NOTHING RETURNING needs

-- name: dependency.count_dependents many
UPDATE job SET dependents = dependents + known.change FROM unnest(:change::bigint[], :needs::bigint[]) AS known (change, needs)
WHERE job.id = known.needs

-- name: source.add many
INSERT INTO job (id, queue, kind, title, payload, priority, key, source, max_attempts, timeout, created_at, status)
SELECT found.*, 'ready' FROM unnest(:id::bigint[], :queue::text[], :kind::text[], :title::text[], :payload::text[],
    :priority::bigint[], :key::text[], :source::text[], :max_attempts::bigint[], :timeout::bigint[], :now::bigint[]) AS found

-- name: source.known many
SELECT key FROM job WHERE (source, key) IN (SELECT * FROM unnest(:source::text[], :key::text[]))

-- name: source.recall many
SELECT hash, successes, at, reported FROM source_memory WHERE (source, hash) IN (SELECT * FROM unnest(:source::text[], :hash::bigint[]))

-- name: source.remember many
INSERT INTO source_memory (source, hash, successes, at, token)
SELECT source, hash, 1, now, token
FROM unnest(:source::text[], :hash::bigint[], :now::bigint[], :token::bigint[]) AS done (source, hash, now, token) ORDER BY source, hash
ON CONFLICT (source, hash) DO UPDATE SET successes = source_memory.successes + 1, at = excluded.at, token = excluded.token

-- name: source.mark_reported many
UPDATE source_memory SET reported = 1 WHERE (source, hash) IN (SELECT * FROM unnest(:source::text[], :hash::bigint[])) AND reported = 0 RETURNING hash

-- name: source.let_go many
UPDATE job SET source = NULL, key = NULL WHERE id = ANY (:id::bigint[])
