-- name: join
-- Register an orchestrator, with a lease.
INSERT INTO orchestrator (id, crew, host, hostname, pid, version, access, status, lease_expires_at, started_at)
VALUES (:id, :crew, :host, :hostname, :pid, :version, :access, 'starting', :lease_expires_at, :now)

-- name: count_of_token
-- How many live orchestrators one access token began over HTTP.
SELECT count(*) FROM orchestrator WHERE status <> 'stopped' AND access = :access

-- name: renew
-- Renew the lease that all claims of its workers depend on, and write which directive it has acknowledged. No row means
-- that it was given up.
UPDATE orchestrator SET lease_expires_at = $greatest(lease_expires_at, :lease_expires_at),
    acknowledged_directive = $greatest(acknowledged_directive, :acknowledged_directive), status = :status
WHERE id = :id AND status <> 'stopped' RETURNING lease_expires_at

-- name: advance
-- Raise the running number of its exchanges, which also renews its lease; no row means that this exchange is late, or
-- that the orchestrator was given up.
UPDATE orchestrator SET exchange = :number, lease_expires_at = $greatest(lease_expires_at, $now + :lease)
WHERE id = :id AND exchange = :number - 1 AND status <> 'stopped' RETURNING id

-- name: end
-- Mark an orchestrator as stopped; no row means that it was already.
UPDATE orchestrator SET status = 'stopped' WHERE id = :id AND status <> 'stopped' RETURNING id

-- name: get
-- Its state, the running number of its last exchange, and what people ask of it.
SELECT status, exchange, desired FROM orchestrator WHERE id = :id

-- name: home
-- Where an orchestrator runs, its crew, and the access token that speaks for it.
SELECT host, hostname, pid, version, access, crew FROM orchestrator WHERE id = :id

-- name: live
-- The leases of the orchestrators that are not stopped.
SELECT id, lease_expires_at, hostname, pid FROM orchestrator WHERE status <> 'stopped' ORDER BY id

-- name: all_live
-- The orchestrators that are not stopped, as people see them.
SELECT id, status, crew, host, hostname, pid, started_at, last_reconcile_at, acknowledged_directive, version, lease_expires_at
FROM orchestrator WHERE status <> 'stopped' ORDER BY id

-- name: worker_ids
-- The ids that were made for an orchestrator's workers over HTTP and that it has not used.
SELECT worker_ids FROM orchestrator WHERE id = :id

-- name: keep_worker_ids
-- Write which of those ids are left.
UPDATE orchestrator SET worker_ids = :ids WHERE id = :id

-- name: hosts
-- Every host that had an orchestrator, with its latest name.
SELECT host, hostname FROM orchestrator ORDER BY id

-- name: stopping
-- Whether the main crew's orchestrator on this host is stopping.
SELECT id FROM orchestrator WHERE status = 'stopping' AND crew = 'main' AND host = :host

-- name: ask
-- Write what people want an orchestrator to do.
UPDATE orchestrator SET desired = :desired WHERE id = :id AND status <> 'stopped'

-- name: reconciled
-- Note when an orchestrator last reconciled the store.
UPDATE orchestrator SET last_reconcile_at = :now WHERE id = :id

-- name: held
-- The live claims of an orchestrator's workers.
SELECT $job_columns FROM job
WHERE status = 'active' AND orchestrator = :id
    AND worker IN (SELECT worker.id FROM worker WHERE worker.orchestrator = :id AND worker.status NOT IN ('stopped', 'dead'))
ORDER BY token

-- name: pulse
-- When some orchestrator last renewed (decision 7).
SELECT at, graced, grace_from FROM pulse WHERE id = 1

-- name: beat_pulse
-- Note that an orchestrator renewed.
UPDATE pulse SET at = :now WHERE id = 1

-- name: grace
-- Judge nobody by the time before now: the store was away.
UPDATE pulse SET graced = :graced, grace_from = :now WHERE id = 1
