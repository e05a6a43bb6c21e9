-- name: insert
-- Insert a job in the state in which it rests.
INSERT INTO job (id, queue, kind, title, payload, priority, status, blocked_on, due_at, due_wall, key, limit_key, parent,
    max_attempts, timeout, created_at, trace)
VALUES (:id, :queue, :kind, :title, :payload, :priority, :status, :blocked_on, :due_at, :due_wall, :key, :limit_key, :parent,
    :max_attempts, :timeout, :created_at, :trace)

-- name: get
-- One job.
SELECT $job_columns FROM job WHERE id = :id

-- name: brief
-- The few columns of a job that the graph around it shows.
SELECT id, title, queue, status FROM job WHERE id = :id

-- name: lock
-- One job, locked to be changed.
SELECT $job_columns FROM job WHERE id = :id $for_update

-- name: by_key
-- The job that has a key in its queue; a source's keys are its own.
SELECT $job_columns FROM job WHERE queue = :queue AND key = :key AND source IS NULL

-- name: kinds_waiting
-- How many jobs of each kind wait to be claimed, without those of sources and without rota's own. Slow: only for a
-- check.
SELECT kind, count(*) FROM job WHERE status = 'ready' AND source IS NULL AND substr(queue, 1, 1) <> '~'
GROUP BY kind ORDER BY kind

-- name: some
-- Those of these jobs that exist.
SELECT $job_columns FROM job WHERE id IN (SELECT value FROM json_each(:ids))

-- name: relations
-- What each of these jobs depends on, and the jobs that name it as their parent.
SELECT 'after' AS kind, job, needs FROM dependency WHERE job IN (SELECT value FROM json_each(:ids))
UNION ALL SELECT 'child', parent, id FROM job WHERE parent IN (SELECT value FROM json_each(:ids)) ORDER BY 1, 2, 3

-- name: children
-- The jobs that name this one as their parent.
SELECT id FROM job WHERE parent = :id ORDER BY id

-- name: list
-- The newest jobs before an id, of one state and queue or of any; rota's own only on request.
SELECT $job_columns FROM job
WHERE id < :before AND (CAST(:status AS TEXT) IS NULL OR status = :status) AND (CAST(:queue AS TEXT) IS NULL OR queue = :queue)
    AND (:internal = 1 OR substr(queue, 1, 1) <> '~')
ORDER BY id DESC LIMIT :most

-- name: search
-- The newest jobs in a range of ids whose title, kind or key contains a text.
SELECT id FROM job
WHERE id < :before AND id >= :from_id AND (CAST(:status AS TEXT) IS NULL OR status = :status)
    AND (CAST(:queue AS TEXT) IS NULL OR queue = :queue) AND (:internal = 1 OR substr(queue, 1, 1) <> '~')
    AND (lower(title) LIKE :pattern ESCAPE '!' OR lower(kind) LIKE :pattern ESCAPE '!' OR lower(key) LIKE :pattern ESCAPE '!')
ORDER BY id DESC LIMIT :most

-- name: stretch
-- The lowest id among so many of the newest jobs before one, and how many they are.
SELECT min(id), count(*) FROM (SELECT id FROM job WHERE id < :before ORDER BY id DESC LIMIT :window) AS newest

-- name: list_active
-- The newest active jobs before an id, by the index of active jobs.
SELECT $job_columns FROM job WHERE status = 'active' AND worker > '' AND id + 0 < :before AND (CAST(:queue AS TEXT) IS NULL OR queue = :queue)
    AND (:internal = 1 OR substr(queue, 1, 1) <> '~')
ORDER BY id DESC LIMIT :most

-- name: list_held
-- Active jobs, the longest held first.
SELECT $job_columns FROM job WHERE status = 'active' AND worker > '' AND (:internal = 1 OR substr(queue, 1, 1) <> '~')
ORDER BY claimed_at, token LIMIT :most

-- name: list_failed
-- The newest failed jobs before an id, by their index.
SELECT $job_columns FROM job WHERE status = 'failed' AND id < :before AND (CAST(:queue AS TEXT) IS NULL OR queue = :queue)
    AND (:internal = 1 OR substr(queue, 1, 1) <> '~')
ORDER BY id DESC LIMIT :most

-- name: failed_newest
-- The newest failed jobs, by their index, with the beginnings of their errors.
SELECT id, title, queue, substr(error, 1, 500), finished_at FROM job
WHERE status = 'failed' AND substr(queue, 1, 1) <> '~' ORDER BY id DESC LIMIT :most

-- name: held_since
-- Active jobs that were claimed before an instant, the longest held first.
SELECT id, title, queue, kind, worker, claimed_at FROM job
WHERE status = 'active' AND worker > '' AND claimed_at < :before ORDER BY claimed_at LIMIT :most

-- name: ready
-- The best ready jobs of a queue.
SELECT $job_columns FROM job WHERE queue = :queue AND status = 'ready' ORDER BY priority DESC, id LIMIT :most

-- name: rest
-- Move a job without a live claim to the state in which it rests now.
UPDATE job SET status = :status, blocked_on = :blocked_on, unknown_until = NULL WHERE id = :id AND status = :old RETURNING id

-- name: make_ready
-- Make waiting jobs ready, many at a time.
UPDATE job SET status = 'ready', blocked_on = NULL WHERE id = :id AND status IN ('blocked', 'scheduled')

-- name: put_off
-- Give a waiting job that was added again the new payload and the new time.
UPDATE job SET title = :title, payload = :payload, due_at = :due_at, due_wall = 0, status = :status, blocked_on = :blocked_on,
    unknown_until = NULL
WHERE id = :id AND status IN ('blocked', 'scheduled', 'ready')

-- name: drop_key
-- Take the key from a job, for the one that is being added.
UPDATE job SET key = NULL WHERE id = :id

-- name: finish_unheld
-- End a job without a live claim, for a person.
UPDATE job SET status = :status, blocked_on = NULL, result = :result, error = :error, finished_at = :now
WHERE id = :id AND status = :old RETURNING id

-- name: retry
-- Start a new generation of a final job.
UPDATE job SET status = :status, blocked_on = :blocked_on, due_at = NULL, due_wall = 0, attempts = 0, deaths = 0, lapses = 0, isolated = 0,
    generation = generation + 1, result = NULL, error = NULL, finished_at = NULL, unknown_until = NULL
WHERE id = :id AND status = :old RETURNING id

-- name: count_admitted
-- How many other jobs of a key may run now: at most its limit, and a few more after the limit was lowered.
SELECT count(*) FROM (
    SELECT 1 FROM job WHERE queue = :queue AND limit_key = :limit_key AND (status = 'ready' OR status = 'active') AND id <> :id LIMIT :most
) AS admitted

-- name: next_crowded
-- The best job that waits for room under its key's limit.
SELECT id FROM job
WHERE queue = :queue AND limit_key = :limit_key AND status = 'blocked' AND blocked_on = 'limit'
ORDER BY priority DESC, id LIMIT 1

-- name: crowded_keys
-- Keys of a queue that have jobs waiting for room.
SELECT DISTINCT limit_key FROM job
WHERE queue = :queue AND limit_key > :after AND status = 'blocked' AND blocked_on = 'limit' ORDER BY limit_key LIMIT :most

-- name: admitted_keys
-- Keys of a queue that have more jobs admitted than the limit allows, with ready ones among them.
SELECT limit_key FROM job
WHERE queue = :queue AND limit_key IS NOT NULL AND (status = 'ready' OR status = 'active')
GROUP BY limit_key HAVING count(*) > :per_key AND sum(CASE WHEN status = 'ready' THEN 1 ELSE 0 END) > 0 LIMIT :most

-- name: last_ready_of_key
-- The ready job of a key that must wait first when the limit is lowered.
SELECT id FROM job
WHERE queue = :queue AND limit_key = :limit_key AND (status = 'ready' OR status = 'active') AND status = 'ready'
ORDER BY priority + 0, id DESC LIMIT 1

-- name: due
-- Scheduled jobs that are due, the longest due first, with whether each depends on other jobs.
SELECT id, queue, limit_key, due_at, due_wall, EXISTS (SELECT 1 FROM dependency WHERE dependency.job = job.id) FROM job
WHERE status = 'scheduled' AND due_wall = :due_wall AND due_at <= :now ORDER BY due_at LIMIT :most

-- name: blocked_from
-- Jobs that wait for others, from an id on, with whether any of those is still open. The inner LIMIT tells the planner
-- how few jobs it must look at.
SELECT id, queue, limit_key, due_at, due_wall,
    EXISTS (SELECT 1 FROM dependency JOIN job AS needed ON needed.id = dependency.needs
            WHERE dependency.job = waiting.id AND needed.status <> 'done'
                AND (dependency.until_over = 0 OR needed.status NOT IN ('failed', 'cancelled'))) AS is_open
FROM (SELECT id, queue, limit_key, due_at, due_wall FROM job
      WHERE status = 'blocked' AND blocked_on = 'dependency' AND id > :after ORDER BY id LIMIT :most) AS waiting ORDER BY id

-- name: next_stretch
-- The last id among the next so many jobs; NULL at the end.
SELECT max(id) FROM (SELECT id FROM job WHERE id > :after ORDER BY id LIMIT :most) AS next

-- name: next_unknown
-- The next kind of a queue that has jobs waiting for a worker that knows it, and the first of the next queue: one index
-- lookup each.
SELECT queue, kind FROM (SELECT queue, kind FROM job
    WHERE status = 'blocked' AND blocked_on = 'kind' AND queue = :queue AND kind > :kind ORDER BY kind LIMIT 1) AS here
UNION ALL SELECT queue, kind FROM (SELECT queue, kind FROM job
    WHERE status = 'blocked' AND blocked_on = 'kind' AND queue > :queue ORDER BY queue, kind LIMIT 1) AS further

-- name: unknown
-- Jobs of a kind that wait for a worker that knows it, the oldest first, with whether each depends on other jobs.
SELECT id, queue, limit_key, NULL, 0, EXISTS (SELECT 1 FROM dependency WHERE dependency.job = job.id) FROM job
WHERE status = 'blocked' AND blocked_on = 'kind' AND queue = :queue AND kind = :kind ORDER BY id LIMIT :most

-- name: count_unknown
-- How many of the oldest jobs wait for a worker that knows their kind, by queue and kind, and when the first of them
-- fails.
SELECT queue, kind, count(*), min(unknown_until) FROM
    (SELECT queue, kind, unknown_until FROM job WHERE status = 'blocked' AND unknown_until IS NOT NULL
    ORDER BY unknown_until LIMIT :window) AS oldest
GROUP BY queue, kind ORDER BY queue, kind LIMIT :most

-- name: overdue_unknown
-- Jobs that have waited too long for a worker that knows their kind.
SELECT $job_columns FROM job
WHERE status = 'blocked' AND unknown_until IS NOT NULL AND unknown_until <= :now ORDER BY unknown_until LIMIT :most

-- name: wait_on
-- Let a job wait longer: its queue has no worker that could know its kind.
UPDATE job SET unknown_until = :until WHERE id = :id AND status = 'blocked'

-- name: unknown_until
-- Until when a job waits for a worker that knows its kind.
SELECT unknown_until FROM job WHERE id = :id

-- name: prunable
-- Old final jobs in a range of ids that no unfinished job waits for.
SELECT id, queue, status FROM job
WHERE id > :after AND id <= :upto AND status IN ('done', 'failed', 'cancelled')
    AND (status = 'failed' AND finished_at < :failed_before OR status <> 'failed' AND finished_at < :before)
    AND NOT EXISTS (SELECT 1 FROM dependency JOIN job AS waiting ON waiting.id = dependency.job
                    WHERE dependency.needs = job.id AND waiting.status NOT IN ('done', 'failed', 'cancelled'))
ORDER BY id LIMIT :most $skip_locked

-- name: surplus
-- The oldest final jobs of a queue in a range of ids that no unfinished job waits for.
SELECT id, queue, status FROM job
WHERE id > :after AND id <= :upto AND queue = :queue AND status IN ('done', 'failed', 'cancelled')
    AND NOT EXISTS (SELECT 1 FROM dependency JOIN job AS waiting ON waiting.id = dependency.job
                    WHERE dependency.needs = job.id AND waiting.status NOT IN ('done', 'failed', 'cancelled'))
ORDER BY id LIMIT :most $skip_locked

-- name: awaited
-- Those of these jobs that an unfinished job waits for.
SELECT DISTINCT dependency.needs FROM dependency JOIN job AS waiting ON waiting.id = dependency.job
WHERE dependency.needs = :id AND waiting.status NOT IN ('done', 'failed', 'cancelled')

-- name: forget
-- Delete a job.
DELETE FROM job WHERE id = :id

-- name: forget_runs
-- Delete a job's runs and return their tokens.
DELETE FROM run WHERE job = :id RETURNING token

-- name: forget_dependencies
-- Delete what a job waited for and what waited for it.
DELETE FROM dependency WHERE job = :id OR needs = :id
