-- name: add
-- Let one job wait for another, until that is done or only over; adding it again changes nothing.
INSERT INTO dependency (job, needs, until_over) VALUES (:job, :needs, :until_over) ON CONFLICT (job, needs) DO NOTHING RETURNING needs

-- name: remove
-- Let one job no longer wait for another.
DELETE FROM dependency WHERE job = :job AND needs = :needs RETURNING needs

-- name: count_dependents
-- Change the count of jobs that wait for one: settling a job without any need not look for them.
UPDATE job SET dependents = dependents + :change WHERE id = :needs

-- name: of_job
-- The jobs that one depends on, with the state of each.
SELECT dependency.needs, job.status FROM dependency JOIN job ON job.id = dependency.needs
WHERE dependency.job = :job ORDER BY dependency.needs

-- name: waiting_for
-- The first of the jobs that wait for one.
SELECT job FROM dependency WHERE needs = :needs ORDER BY job LIMIT :most

-- name: open
-- Whether a job must still wait for another: one that is not done, or not over where that is enough.
SELECT 1 FROM dependency JOIN job ON job.id = dependency.needs
WHERE dependency.job = :job AND job.status <> 'done' AND (dependency.until_over = 0 OR job.status NOT IN ('failed', 'cancelled')) LIMIT 1

-- name: open_of_job
-- The jobs that one must still wait for, with the state of each.
SELECT dependency.needs, job.status FROM dependency JOIN job ON job.id = dependency.needs
WHERE dependency.job = :job AND job.status <> 'done' AND (dependency.until_over = 0 OR job.status NOT IN ('failed', 'cancelled'))
ORDER BY dependency.needs

-- name: results
-- The results of the jobs that one depends on.
SELECT job.id, job.title, job.status, job.result, job.error FROM dependency JOIN job ON job.id = dependency.needs
WHERE dependency.job = :job ORDER BY job.id

-- name: reaches
-- Whether `from_job` waits for `to_job`, over any number of steps.
WITH RECURSIVE needed (id) AS (
    SELECT CAST(:from_job AS $int64)
    UNION
    SELECT dependency.needs FROM dependency JOIN needed ON dependency.job = needed.id
)
SELECT 1 FROM needed WHERE id = :to_job

-- name: dependents
-- A chunk of the jobs that depend on one, with whether each must go on waiting: for another job or for something else.
SELECT job.id, job.queue, job.limit_key, job.due_at, job.due_wall, job.status <> 'blocked' OR job.blocked_on <> 'dependency' OR
    EXISTS (SELECT 1 FROM dependency AS other JOIN job AS needed ON needed.id = other.needs
            WHERE other.job = job.id AND needed.status <> 'done'
                AND (other.until_over = 0 OR needed.status NOT IN ('failed', 'cancelled'))) AS is_open
FROM (SELECT job FROM dependency WHERE needs = :needs AND job > :after ORDER BY job LIMIT :most) AS waiting
JOIN job ON job.id = waiting.job ORDER BY job.id

-- name: keep_ripple
-- Remember up to which dependent of a job that is over its end was passed on.
INSERT INTO ripple (job, last_dependent) VALUES (:job, :last)
ON CONFLICT (job) DO UPDATE SET last_dependent = excluded.last_dependent

-- name: ripples
-- Jobs whose end is still to be passed on to further dependents.
SELECT job, last_dependent FROM ripple ORDER BY job LIMIT :most $skip_locked

-- name: end_ripple
-- Forget that: all dependents were looked at.
DELETE FROM ripple WHERE job = :job
