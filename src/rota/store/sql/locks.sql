-- name: orchestrator
-- Lock an orchestrator, and so the claims of its supervised workers (decision 14).
SELECT id FROM orchestrator WHERE id = :id $for_update

-- name: lapsed_orchestrator
-- Lock an orchestrator whose lease has run out, unless it has renewed since or is locked by another transaction.
SELECT id FROM orchestrator WHERE id = :id AND status <> 'stopped' AND lease_expires_at = :lease_expires_at $skip_locked

-- name: worker
-- Lock an external worker, and so its claims.
SELECT id FROM worker WHERE id = :id $for_update

-- name: free_worker
-- Lock an external worker unless another transaction has.
SELECT id FROM worker WHERE id = :id $skip_locked

-- name: free_queue
-- Lock a queue unless another transaction has.
SELECT name FROM queue WHERE name = :queue $skip_locked

-- name: free_scheduled
-- Lock a job that is due unless another transaction has.
SELECT id FROM job WHERE id = :id AND status = 'scheduled' $skip_locked

-- name: queue_of
-- The queue of a job.
SELECT DISTINCT queue FROM job WHERE id = :id

-- name: queues_of_dependents
-- The queues of the jobs that wait for one.
SELECT DISTINCT job.queue FROM (SELECT job FROM dependency WHERE needs = :needs AND job > :after ORDER BY job LIMIT :most) AS waiting
JOIN job ON job.id = waiting.job

-- name: dependents
-- Lock the jobs that wait for one, so that only one transaction at a time asks whether they must still wait.
SELECT id FROM job WHERE id IN (SELECT job FROM dependency WHERE needs = :needs AND job > :after ORDER BY job LIMIT :most)
ORDER BY id $for_update

-- name: jobs
-- Lock jobs and read them as they are now.
SELECT $job_columns FROM job WHERE id = :id $for_update
