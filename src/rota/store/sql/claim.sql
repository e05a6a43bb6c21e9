-- name: pick
-- The best ready jobs of a queue, locked to be claimed. In the place of `took` and of the drawn token, PostgreSQL's own
-- texts answer how long the scan took and the token drawn for the job (decisions 25 and 29). `token` is the job's last
-- one.
SELECT id, kind, title, payload, priority, attempts, max_attempts, timeout, checkpoint, token, source, key, trace, scheduled_for,
    0, isolated, NULL FROM job
WHERE queue = :queue AND status = 'ready' ORDER BY priority DESC, id LIMIT :most $skip_locked

-- name: take
-- Write a claim into the row of a ready job (decision 4). A supervised worker's claim has no lease of its own.
UPDATE job SET status = 'active', token = :token, worker = :worker, orchestrator = :orchestrator, claimed_at = :now,
    lease = :lease, lease_expires_at = :lease_expires_at, renewed_count = 0
WHERE id = :id AND status = 'ready'

-- name: renew
-- Extend the live lease of a manual claim; no row means that the claim is lost.
UPDATE job SET lease_expires_at = $greatest(lease_expires_at, :until), renewed_count = renewed_count + 1
WHERE id = :id AND token = :token AND status = 'active' AND lease_expires_at > :now RETURNING $job_columns

-- name: checkpoint
-- Keep what the next attempt should know; no row means that the claim is lost.
UPDATE job SET checkpoint = :checkpoint WHERE id = :id AND token = :token AND status = 'active' RETURNING worker

-- name: take_all
-- Claim many ready jobs for one supervised worker, each under its token.
UPDATE job SET status = 'active', token = drawn.value, worker = :worker, orchestrator = :orchestrator, claimed_at = :now,
    lease = NULL, lease_expires_at = NULL, renewed_count = 0
FROM json_each(:tokens) AS drawn WHERE job.id = CAST(drawn.key AS INTEGER) AND job.status = 'ready'

-- name: holding
-- Those of these jobs that are active; the caller compares their tokens.
SELECT id, token, queue, worker, dependents, limit_key, source, key,
    claimed_at, created_at, attempts, generation, due_at FROM job
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'active' ORDER BY token $for_update

-- name: record_done
-- Write the runs of claims that are about to be settled as done.
INSERT INTO run (token, job, worker, attempt, generation, claimed_at, ended_at, verb, reason, error, note, renewed_count,
    transcript_path, stderr_path, captured_by)
SELECT token, id, worker, attempts + 1, generation, claimed_at, :now, 'finish', NULL, NULL, NULL, renewed_count,
    transcript_path, stderr_path, captured_by FROM job
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'active'

-- name: capture
-- Keep where the holder's code writes its output, and the access token that reported it; no row means that the claim is
-- lost.
UPDATE job SET transcript_path = :transcript_path, stderr_path = :stderr_path, captured_by = :by
WHERE id = :id AND token = :token AND status = 'active' RETURNING worker

-- name: finish
-- Settle claims as done, each with its result.
UPDATE job SET status = 'done', result = reported.value, error = NULL, note = NULL, finished_at = :now, attempts = attempts + 1,
    transcript_path = NULL, stderr_path = NULL, isolated = 0
FROM json_each(:results) AS reported WHERE job.id = CAST(reported.key AS INTEGER) AND job.status = 'active'

-- name: end
-- End a claim in any other way; no row means that the claim is lost.
UPDATE job SET status = :status, blocked_on = :blocked_on, due_at = :due_at, due_wall = 0, attempts = attempts + :spent,
    deaths = deaths + :died, lapses = lapses + :lapsed, result = :result, error = :error, note = :note,
    finished_at = :finished_at, transcript_path = NULL, stderr_path = NULL, isolated = :isolated, unknown_until = :unknown_until
WHERE id = :id AND token = :token AND status = 'active' RETURNING id

-- name: put_back
-- Release a claim that was not started, of a job that can only become ready again; no row means that the claim is lost,
-- or that the job needs the general way.
UPDATE job SET status = 'ready', blocked_on = NULL, due_at = NULL, due_wall = 0, result = NULL, error = NULL, note = NULL,
    finished_at = NULL, transcript_path = NULL, stderr_path = NULL
WHERE id = :id AND token = :token AND status = 'active' AND limit_key IS NULL AND source IS NULL AND NOT EXISTS
    (SELECT 1 FROM dependency JOIN job AS needed ON needed.id = dependency.needs
    WHERE dependency.job = job.id AND needed.status <> 'done')
RETURNING id

-- name: set_aside
-- End a claim whose worker does not know the job's kind; no row means that the claim is lost, or that the job needs the
-- general way.
UPDATE job SET status = 'blocked', blocked_on = 'kind', unknown_until = :until, note = :note, due_at = NULL, due_wall = 0,
    result = NULL, error = NULL, finished_at = NULL, transcript_path = NULL, stderr_path = NULL
WHERE id = :id AND token = :token AND status = 'active' AND limit_key IS NULL AND source IS NULL
RETURNING id, token, queue, worker

-- name: record
-- Write the run of one claim, once, when it ends.
INSERT INTO run (token, job, worker, attempt, generation, claimed_at, ended_at, verb, reason, error, note, renewed_count)
VALUES (:token, :job, :worker, :attempt, :generation, :claimed_at, :ended_at, :verb, :reason, :error, :note, :renewed_count)

-- name: record_capture
-- Keep in a run where its code wrote its output, and the access token that reported it.
UPDATE run SET transcript_path = :transcript_path, stderr_path = :stderr_path,
    captured_by = (SELECT captured_by FROM job WHERE job.id = run.job) WHERE token = :token

-- name: captures
-- Where the runs of a job wrote their output, oldest first; a live claim comes last.
SELECT token, transcript_path, stderr_path, captured_by, 0 FROM run WHERE job = :job
UNION ALL
SELECT token, transcript_path, stderr_path, captured_by, 1 FROM job WHERE id = :job AND status = 'active' ORDER BY 1

-- name: run
-- The run of one claim, by its token.
SELECT $run_columns FROM run WHERE token = :token

-- name: last_runs
-- The last runs of a job, newest first.
SELECT $run_columns FROM run WHERE job = :job ORDER BY token DESC LIMIT :most

-- name: owners
-- The worker that holds or held a claim, and the access token that registered it; a token that was never drawn for the
-- job has no row.
SELECT job.id, job.token, job.worker, worker.access FROM job LEFT JOIN worker ON worker.id = job.worker
WHERE job.id = :job AND job.token = :token
UNION ALL
SELECT run.job, run.token, run.worker, worker.access FROM run LEFT JOIN worker ON worker.id = run.worker
WHERE run.job = :job AND run.token = :token

-- name: last_run_of
-- The run of a worker's last ended claim on a job.
SELECT $run_columns FROM run WHERE job = :job AND worker = :worker ORDER BY token DESC LIMIT 1

-- name: held_by
-- The live claims of a worker, in the order in which it took them.
SELECT $job_columns FROM job WHERE worker = :worker AND status = 'active' ORDER BY token

-- name: lapsed
-- Manual claims whose lease has run out.
SELECT $job_columns FROM job
WHERE status = 'active' AND lease_expires_at IS NOT NULL AND lease_expires_at <= :now ORDER BY lease_expires_at LIMIT :most

-- name: orphaned
-- Live claims whose worker is gone or was never registered.
SELECT $job_columns FROM job
WHERE status = 'active' AND worker IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM worker WHERE worker.id = job.worker AND worker.status NOT IN ('stopped', 'dead'))
ORDER BY token LIMIT :most

-- name: taken
-- The durations of those of the last runs that finished a job of this kind.
SELECT recent.ended_at - recent.claimed_at FROM (SELECT * FROM run ORDER BY token DESC LIMIT :most) AS recent
JOIN job ON job.id = recent.job WHERE job.kind = :kind AND recent.verb = 'finish'

-- name: longest
-- By kind, the longest of the last runs that finished a job.
SELECT job.kind, max(recent.ended_at - recent.claimed_at) FROM (SELECT * FROM run ORDER BY token DESC LIMIT :most) AS recent
JOIN job ON job.id = recent.job WHERE recent.verb = 'finish' GROUP BY job.kind
