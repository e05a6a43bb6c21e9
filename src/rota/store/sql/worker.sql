-- name: insert
-- Register an external worker.
INSERT INTO worker (id, name, hostname, host, pid, pid_start, status, orchestrator, slot, queue, version, registered_at, last_heartbeat_at, check_at,
    heartbeat_interval, metadata)
VALUES (:id, :name, :hostname, :host, :pid, :pid_start, :status, :orchestrator, :slot, :queue, :version, :now, :now, :check_at,
    :heartbeat_interval, :metadata)

-- name: get
-- One worker.
SELECT $worker_columns FROM worker WHERE id = :id

-- name: lock
-- One worker, locked while it claims or is marked dead.
SELECT $worker_columns FROM worker WHERE id = :id $for_update

-- name: live
-- The workers that are not gone.
SELECT $worker_columns FROM worker WHERE status NOT IN ('stopped', 'dead') ORDER BY registered_at, id

-- name: count_of_token
-- How many live workers one access token registered.
SELECT count(*) FROM worker WHERE status NOT IN ('stopped', 'dead') AND access = :access

-- name: all
-- The newest workers, gone ones included.
SELECT $worker_columns FROM worker ORDER BY registered_at DESC, id LIMIT :most

-- name: heartbeat
-- Note a heartbeat; no row means that the worker is gone or unknown. A worker that was judged by its lease while it was
-- silent is judged by its heartbeats again.
UPDATE worker SET last_heartbeat_at = :now, heartbeat_count = heartbeat_count + :counted, metadata = coalesce(:metadata, metadata),
    check_at = CASE WHEN check_at > :now + 2 * heartbeat_interval THEN :now + 2 * heartbeat_interval ELSE check_at END
WHERE id = :id AND status NOT IN ('stopped', 'dead') RETURNING desired, queue

-- name: revive
-- Bring back a worker that was given up and turns out to be alive; it holds nothing.
UPDATE worker SET status = 'idle', last_heartbeat_at = :now, check_at = :check_at, current_job = NULL
WHERE id = :id AND status = :old AND orchestrator IS NULL RETURNING id

-- name: claimed
-- Note that a worker took a job, which counts as a heartbeat.
UPDATE worker SET status = CASE WHEN status = 'stopping' THEN status ELSE 'busy' END, current_job = :job, last_heartbeat_at = :now
WHERE id = :id AND status NOT IN ('stopped', 'dead')

-- name: exchanged
-- Note that a supervised worker finished some jobs and got others.
UPDATE worker SET success_count = success_count + :succeeded, current_job = :job,
    status = CASE WHEN status = 'stopping' THEN status ELSE 'busy' END
WHERE id = :id AND status NOT IN ('stopped', 'dead')

-- name: settled
-- Count an ended claim of a worker, and set its state by what it still holds.
UPDATE worker SET success_count = success_count + :succeeded, error_count = error_count + :failed,
    last_error_at = CASE WHEN :failed > 0 THEN :now ELSE last_error_at END,
    last_error_message = CASE WHEN :failed > 0 THEN :error ELSE last_error_message END,
    current_job = (SELECT max(id) FROM job WHERE job.worker = :id AND job.status = 'active'),
    status = CASE WHEN status IN ('idle', 'busy') THEN
        CASE WHEN EXISTS (SELECT 1 FROM job WHERE job.worker = :id AND job.status = 'active') THEN 'busy' ELSE 'idle' END
        ELSE status END
WHERE id = :id

-- name: ask
-- Write what a worker should do; it learns of it with its next heartbeat.
UPDATE worker SET desired = :desired WHERE id = :id AND status NOT IN ('stopped', 'dead') RETURNING id

-- name: end
-- Mark a worker as stopped or dead; no row means that it was already.
UPDATE worker SET status = :status, check_at = NULL, current_job = NULL WHERE id = :id AND status NOT IN ('stopped', 'dead') RETURNING id

-- name: to_judge
-- External workers that may be overdue.
SELECT id, last_heartbeat_at, heartbeat_interval FROM worker
WHERE check_at IS NOT NULL AND check_at <= :now ORDER BY check_at LIMIT :most $skip_locked

-- name: look_again
-- Note when to judge a worker again.
UPDATE worker SET check_at = :check_at WHERE id = :id

-- name: certify
-- Write the death certificate of a worker.
INSERT INTO certificate (worker, slot, died_at, reason, text, exit_code, signal, sent_by, job, usage, last_frame, stderr_tail)
VALUES (:worker, :slot, :now, :reason, :text, :exit_code, :signal, :sent_by, :job, :usage, :last_frame, :stderr_tail)
ON CONFLICT (worker) DO UPDATE SET died_at = excluded.died_at, reason = excluded.reason, text = excluded.text, job = excluded.job

-- name: certificate
-- The death certificate of a worker.
SELECT died_at, reason, text, exit_code, signal, sent_by, job, slot, usage, last_frame, stderr_tail FROM certificate WHERE worker = :worker

-- name: place
-- The host that a worker ran on.
SELECT host, hostname FROM worker WHERE id = :id

-- name: deaths
-- The newest certificates, of one slot or worker or of any, with the start of each life if it is still known.
SELECT died.worker, died.died_at, died.reason, died.text, died.exit_code, died.signal, died.sent_by, died.job, died.slot,
    died.usage, died.last_frame, died.stderr_tail, worker.registered_at
FROM (SELECT * FROM certificate
      WHERE (CAST(:slot AS TEXT) IS NULL OR slot = :slot) AND (CAST(:worker AS TEXT) IS NULL OR worker = :worker)
      ORDER BY died_at DESC, worker LIMIT :most) AS died
LEFT JOIN worker ON worker.id = died.worker ORDER BY died.died_at DESC, died.worker

-- name: of_orchestrator
-- The live workers of one orchestrator.
SELECT id FROM worker WHERE orchestrator = :orchestrator AND status NOT IN ('stopped', 'dead')

-- name: processes
-- The live workers of one orchestrator with their processes.
SELECT id, pid, pid_start, slot FROM worker
WHERE orchestrator = :orchestrator AND status NOT IN ('stopped', 'dead') ORDER BY id

-- name: orphans
-- Live workers of this crew's slots on a host whose orchestrator is gone and that go on without one.
SELECT worker.id, worker.pid, worker.pid_start, worker.slot FROM worker JOIN slot ON slot.name = worker.slot
WHERE worker.orchestrator IS NULL AND worker.status NOT IN ('stopped', 'dead') AND worker.pid IS NOT NULL
    AND worker.host = :host AND slot.crew = :crew ORDER BY worker.id

-- name: registered_processes
-- Live workers that registered with a process on this host.
SELECT id, pid, pid_start FROM worker
WHERE orchestrator IS NULL AND slot IS NULL AND status NOT IN ('stopped', 'dead') AND pid_start IS NOT NULL AND host = :host ORDER BY id

-- name: ready
-- Note that a supervised worker is ready for its first job, which kinds it knows, and how many jobs it runs at a time.
UPDATE worker SET status = 'idle', concurrency = :concurrency, kinds = :kinds WHERE id = :id AND status = 'starting'

-- name: heard
-- Note when a supervised worker last reported. A row locked by another transaction is left for the next time, so that
-- nobody waits in a circle.
UPDATE worker SET last_heartbeat_at = $greatest(last_heartbeat_at, :at)
WHERE id IN (SELECT id FROM worker WHERE id = :id AND orchestrator = :orchestrator
             AND status NOT IN ('stopped', 'dead') $skip_locked)

-- name: stopping
-- Note that a supervised worker was asked to leave.
UPDATE worker SET status = 'stopping' WHERE id = :id AND status IN ('starting', 'idle', 'busy')

-- name: told
-- Keep what a supervised worker reports of itself.
UPDATE worker SET metadata = :metadata WHERE id = :id

-- name: to_stop
-- The live workers of one orchestrator that should stop.
SELECT id FROM worker WHERE orchestrator = :orchestrator AND status NOT IN ('stopped', 'dead') AND desired = 'stop'

-- name: stale
-- Workers whose state does not match what they hold.
SELECT id FROM worker
WHERE status NOT IN ('stopped', 'dead') AND status IN ('idle', 'busy')
    AND ((status = 'busy') <> EXISTS (SELECT 1 FROM job WHERE job.worker = worker.id AND job.status = 'active')
         OR (current_job IS NOT NULL AND NOT EXISTS
             (SELECT 1 FROM job WHERE job.id = worker.current_job AND job.worker = worker.id AND job.status = 'active')))
ORDER BY id LIMIT :most

-- name: count_live_for
-- How many workers could run a job of this queue. The pool `default` serves queues without a pool.
SELECT count(*) FROM worker WHERE status NOT IN ('stopped', 'dead')
    AND (queue IS NULL OR queue = :queue OR (queue = 'default' AND orchestrator IS NOT NULL))

-- name: kinds
-- The kinds that the live workers of each pool declare.
SELECT DISTINCT queue, kinds FROM worker WHERE status NOT IN ('stopped', 'dead') AND status <> 'stopping' AND kinds IS NOT NULL

-- name: prune
-- Delete workers that have been gone for long.
DELETE FROM worker WHERE id IN
    (SELECT id FROM worker WHERE status IN ('stopped', 'dead') AND last_heartbeat_at < :before LIMIT :most $skip_locked) RETURNING id

-- name: count_gone
-- How many workers have been gone for long.
SELECT count(*) FROM worker WHERE status IN ('stopped', 'dead') AND last_heartbeat_at < :before

-- name: prune_certificates
-- Delete the certificates of deleted workers.
DELETE FROM certificate WHERE worker = :id
