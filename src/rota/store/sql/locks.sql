-- name: orchestrator
-- An orchestrator, and with it the claims of the workers that it watches.
SELECT id FROM orchestrator WHERE id = :id $for_update

-- name: lapsed_orchestrator
-- One that looked lapsed, if it has not renewed since and nobody has it.
SELECT id FROM orchestrator WHERE id = :id AND status <> 'stopped' AND lease_expires_at = :lease_expires_at $skip_locked

-- name: worker
-- A worker that nobody watches, and with it its claims.
SELECT id FROM worker WHERE id = :id $for_update

-- name: free_worker
-- The same, if nobody has it.
SELECT id FROM worker WHERE id = :id $skip_locked

-- name: free_queue
-- A queue, if nobody has it.
SELECT name FROM queue WHERE name = :queue $skip_locked

-- name: free_scheduled
-- A job whose time has come, if nobody has it.
SELECT id FROM job WHERE id = :id AND status = 'scheduled' $skip_locked

-- name: queue_of
-- The queue of a job.
SELECT DISTINCT queue FROM job WHERE id = :id

-- name: queues_of_dependents
-- The queues of the jobs that wait for one.
SELECT DISTINCT job.queue FROM (SELECT job FROM dependency WHERE needs = :needs AND job > :after ORDER BY job LIMIT :most) AS waiting
JOIN job ON job.id = waiting.job

-- name: dependents
-- The jobs that wait for one, so that whether they must still wait is asked by one at a time.
SELECT id FROM job WHERE id IN (SELECT job FROM dependency WHERE needs = :needs AND job > :after ORDER BY job LIMIT :most)
ORDER BY id $for_update

-- name: jobs
-- Jobs as they stand.
SELECT $job_columns FROM job WHERE id = :id $for_update
