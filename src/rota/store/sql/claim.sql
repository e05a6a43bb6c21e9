-- name: pick
-- The best ready jobs of a queue, to be handed out; `token` is the last one each had, and last comes the next, where
-- that was drawn with the pick. Before `alone`: how long it took so far, where that may be long.
SELECT id, kind, title, payload, priority, attempts, max_attempts, timeout, checkpoint, token, source, key, trace, scheduled_for,
    0, isolated, NULL FROM job
WHERE queue = :queue AND status = 'ready' ORDER BY priority DESC, id LIMIT :most $skip_locked

-- name: take
-- Make a ready job someone's: the claim is written into its row. A seen worker's claim has no lease of its own.
UPDATE job SET status = 'active', token = :token, worker = :worker, orchestrator = :orchestrator, claimed_at = :now,
    lease = :lease, lease_expires_at = :lease_expires_at, renewed_count = 0
WHERE id = :id AND status = 'ready'

-- name: renew
-- Extend the live lease of a claim by hand; no row means that the claim is lost.
UPDATE job SET lease_expires_at = $greatest(lease_expires_at, :until), renewed_count = renewed_count + 1
WHERE id = :id AND token = :token AND status = 'active' AND lease_expires_at > :now RETURNING $job_columns

-- name: checkpoint
-- Keep what the holder wants the next attempt to know; no row means that the claim is lost.
UPDATE job SET checkpoint = :checkpoint WHERE id = :id AND token = :token AND status = 'active' RETURNING worker

-- name: take_all
-- Make ready jobs a seen worker's, many at a time, each under its token.
UPDATE job SET status = 'active', token = told.value, worker = :worker, orchestrator = :orchestrator, claimed_at = :now,
    lease = NULL, lease_expires_at = NULL, renewed_count = 0
FROM json_each(:tokens) AS told WHERE job.id = CAST(told.key AS INTEGER) AND job.status = 'ready'

-- name: holding
-- Of these jobs the active ones: whose claim is still its holder's is seen by the token.
SELECT id, token, queue, worker, dependents, limit_key, source, key,
    claimed_at, created_at, attempts, generation, due_at FROM job
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'active' ORDER BY token $for_update

-- name: record_done
-- What the claims did that are about to be settled as done.
INSERT INTO run (token, job, worker, attempt, generation, claimed_at, ended_at, verb, reason, error, note, renewed_count,
    transcript_path, stderr_path, captured_by)
SELECT token, id, worker, attempts + 1, generation, claimed_at, :now, 'finish', NULL, NULL, NULL, renewed_count,
    transcript_path, stderr_path, captured_by FROM job
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'active'

-- name: capture
-- Where the holder's code writes what it says, and the access token that said so; no row means that the claim is lost.
UPDATE job SET transcript_path = :transcript_path, stderr_path = :stderr_path, captured_by = :by
WHERE id = :id AND token = :token AND status = 'active' RETURNING worker

-- name: finish
-- Settle claims as done, each with its result.
UPDATE job SET status = 'done', result = told.value, error = NULL, note = NULL, finished_at = :now, attempts = attempts + 1,
    transcript_path = NULL, stderr_path = NULL, isolated = 0
FROM json_each(:results) AS told WHERE job.id = CAST(told.key AS INTEGER) AND job.status = 'active'

-- name: end
-- End a claim in any other way; no row means that the claim is lost.
UPDATE job SET status = :status, blocked_on = :blocked_on, due_at = :due_at, due_wall = 0, attempts = attempts + :spent,
    deaths = deaths + :died, lapses = lapses + :lapsed, result = :result, error = :error, note = :note,
    finished_at = :finished_at, transcript_path = NULL, stderr_path = NULL, isolated = :isolated, unknown_until = :unknown_until
WHERE id = :id AND token = :token AND status = 'active' RETURNING id

-- name: put_back
-- Take back a claim that was not begun, of a job that can only become ready again; no row means that it is lost, or that
-- there is more to look at.
UPDATE job SET status = 'ready', blocked_on = NULL, due_at = NULL, due_wall = 0, result = NULL, error = NULL, note = NULL,
    finished_at = NULL, transcript_path = NULL, stderr_path = NULL
WHERE id = :id AND token = :token AND status = 'active' AND limit_key IS NULL AND source IS NULL AND NOT EXISTS
    (SELECT 1 FROM dependency JOIN job AS needed ON needed.id = dependency.needs
    WHERE dependency.job = job.id AND needed.status <> 'done')
RETURNING id

-- name: set_aside
-- End a claim whose worker does not know the job's kind; no row means that it is lost, or that there is more to look at.
UPDATE job SET status = 'blocked', blocked_on = 'kind', unknown_until = :until, note = :note, due_at = NULL, due_wall = 0,
    result = NULL, error = NULL, finished_at = NULL, transcript_path = NULL, stderr_path = NULL
WHERE id = :id AND token = :token AND status = 'active' AND limit_key IS NULL AND source IS NULL
RETURNING id, token, queue, worker

-- name: record
-- What one claim did; written once, when it ends.
INSERT INTO run (token, job, worker, attempt, generation, claimed_at, ended_at, verb, reason, error, note, renewed_count)
VALUES (:token, :job, :worker, :attempt, :generation, :claimed_at, :ended_at, :verb, :reason, :error, :note, :renewed_count)

-- name: record_capture
-- Where the code of a run that has ended wrote what it said, and the access token that said so.
UPDATE run SET transcript_path = :transcript_path, stderr_path = :stderr_path,
    captured_by = (SELECT captured_by FROM job WHERE job.id = run.job) WHERE token = :token

-- name: captures
-- What was said of the files of a job's runs, oldest first; the live one's claim is its last.
SELECT token, transcript_path, stderr_path, captured_by, 0 FROM run WHERE job = :job
UNION ALL
SELECT token, transcript_path, stderr_path, captured_by, 1 FROM job WHERE id = :job AND status = 'active' ORDER BY 1

-- name: run
-- What one claim did, by its token.
SELECT $run_columns FROM run WHERE token = :token

-- name: last_runs
-- What the last claims of a job did, newest first.
SELECT $run_columns FROM run WHERE job = :job ORDER BY token DESC LIMIT :most

-- name: owners
-- Who holds or held a claim, and the access token that speaks for that worker; a claim of nobody has no row.
SELECT job.id, job.token, job.worker, worker.access FROM job LEFT JOIN worker ON worker.id = job.worker
WHERE job.id = :job AND job.token = :token
UNION ALL
SELECT run.job, run.token, run.worker, worker.access FROM run LEFT JOIN worker ON worker.id = run.worker
WHERE run.job = :job AND run.token = :token

-- name: last_run_of
-- What a worker's last ended claim on a job did.
SELECT $run_columns FROM run WHERE job = :job AND worker = :worker ORDER BY token DESC LIMIT 1

-- name: held_by
-- The live claims of a worker, in the order in which it took them.
SELECT $job_columns FROM job WHERE worker = :worker AND status = 'active' ORDER BY token

-- name: lapsed
-- Claims by hand that are past their lease.
SELECT $job_columns FROM job
WHERE status = 'active' AND lease_expires_at IS NOT NULL AND lease_expires_at <= :now ORDER BY lease_expires_at LIMIT :most

-- name: orphaned
-- Live claims of workers that are gone, or that never were.
SELECT $job_columns FROM job
WHERE status = 'active' AND worker IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM worker WHERE worker.id = job.worker AND worker.status NOT IN ('stopped', 'dead'))
ORDER BY token LIMIT :most

-- name: taken
-- How long those of the last runs took that finished a job of this kind.
SELECT recent.ended_at - recent.claimed_at FROM (SELECT * FROM run ORDER BY token DESC LIMIT :most) AS recent
JOIN job ON job.id = recent.job WHERE job.kind = :kind AND recent.verb = 'finish'

-- name: longest
-- By kind, how long the longest of the last runs took that finished a job.
SELECT job.kind, max(recent.ended_at - recent.claimed_at) FROM (SELECT * FROM run ORDER BY token DESC LIMIT :most) AS recent
JOIN job ON job.id = recent.job WHERE recent.verb = 'finish' GROUP BY job.kind
