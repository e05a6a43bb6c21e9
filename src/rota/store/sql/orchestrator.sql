-- name: join
-- An orchestrator begins, with a lease.
INSERT INTO orchestrator (id, crew, host, hostname, pid, version, access, status, lease_expires_at, started_at)
VALUES (:id, :crew, :host, :hostname, :pid, :version, :access, 'starting', :lease_expires_at, :now)

-- name: count_of_token
-- How many of those that are not gone one access token began over HTTP.
SELECT count(*) FROM orchestrator WHERE status <> 'stopped' AND access = :access

-- name: renew
-- Renew the lease on which all its claims hang, and say which directive it has carried out. No row means that it was given up.
UPDATE orchestrator SET lease_expires_at = $greatest(lease_expires_at, :lease_expires_at),
    acknowledged_directive = $greatest(acknowledged_directive, :acknowledged_directive), status = :status
WHERE id = :id AND status <> 'stopped' RETURNING lease_expires_at

-- name: advance
-- Raise the running number of its exchanges, which also shows that it lives; no row means that this one is late, or that
-- the orchestrator was given up.
UPDATE orchestrator SET exchange = :number, lease_expires_at = $greatest(lease_expires_at, $now + :lease)
WHERE id = :id AND exchange = :number - 1 AND status <> 'stopped' RETURNING id

-- name: end
-- It is gone.
UPDATE orchestrator SET status = 'stopped' WHERE id = :id AND status <> 'stopped' RETURNING id

-- name: get
-- One of them.
SELECT id, status, lease_expires_at, exchange, acknowledged_directive, hostname, pid, desired FROM orchestrator WHERE id = :id

-- name: home
-- Where it runs, and the access token that speaks for it.
SELECT host, hostname, pid, version, access, crew FROM orchestrator WHERE id = :id

-- name: live
-- Those that are not gone.
SELECT id, lease_expires_at, hostname, pid FROM orchestrator WHERE status <> 'stopped' ORDER BY id

-- name: all_live
-- Those that are not gone, as people see them.
SELECT id, status, crew, host, hostname, pid, started_at, last_reconcile_at, acknowledged_directive, version, lease_expires_at
FROM orchestrator WHERE status <> 'stopped' ORDER BY id

-- name: worker_ids
-- The ids that were made for its workers over HTTP and that it has not used.
SELECT worker_ids FROM orchestrator WHERE id = :id

-- name: keep_worker_ids
-- The same, as they are from now on.
UPDATE orchestrator SET worker_ids = :ids WHERE id = :id

-- name: hosts
-- Every host that had an orchestrator, with its name as of late.
SELECT host, hostname FROM orchestrator ORDER BY id

-- name: stopping
-- Whether this host's own is about to end.
SELECT id FROM orchestrator WHERE status = 'stopping' AND crew = 'main' AND host = :host

-- name: ask
-- Tell it what people directive of it.
UPDATE orchestrator SET desired = :desired WHERE id = :id AND status <> 'stopped'

-- name: reconciled
-- It has made the store true.
UPDATE orchestrator SET last_reconcile_at = :now WHERE id = :id

-- name: held
-- The live claims that hang on it.
SELECT $job_columns FROM job
WHERE status = 'active' AND orchestrator = :id
    AND worker IN (SELECT worker.id FROM worker WHERE worker.orchestrator = :id AND worker.status NOT IN ('stopped', 'dead'))
ORDER BY token

-- name: pulse
-- When some orchestrator last renewed.
SELECT at, graced, grace_from FROM pulse WHERE id = 1

-- name: beat_pulse
-- One renewed.
UPDATE pulse SET at = :now WHERE id = 1

-- name: grace
-- The store was away: nobody is judged by the time before now.
UPDATE pulse SET graced = :graced, grace_from = :now WHERE id = 1
