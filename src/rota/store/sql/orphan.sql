-- name: take_leave
-- Turn a supervised worker whose orchestrator is gone into an external one that has just sent a heartbeat (decision
-- 10); no row means that it is none.
UPDATE worker SET orchestrator = NULL, heartbeat_interval = :interval, check_at = :check_at, last_heartbeat_at = :now
WHERE id = :worker AND orchestrator IS NOT NULL AND status NOT IN ('stopped', 'dead') RETURNING id

-- name: take_leases
-- Give each claim of that worker a lease of its own, in place of the orchestrator's.
UPDATE job SET orchestrator = NULL, lease = :lease, lease_expires_at = :lease_expires_at
WHERE worker = :worker AND status = 'active' AND orchestrator IS NOT NULL

-- name: renew
-- Extend the lease of the current job, even one that ran out, as long as nobody took the job. No row means that the
-- claim is lost.
UPDATE job SET lease_expires_at = $greatest(lease_expires_at, :lease_expires_at), renewed_count = renewed_count + 1
WHERE id = :id AND token = :token AND worker = :worker AND status = 'active' AND orchestrator IS NULL RETURNING id

-- name: checkpoint
-- Keep what the next attempt should know, if the claim is still the worker's own.
UPDATE job SET checkpoint = :checkpoint WHERE id = :id AND token = :token AND worker = :worker AND status = 'active'

-- name: empty_slot
-- Empty the worker's slot, unless it has been filled again.
UPDATE slot SET status = 'empty', worker = NULL, start_at = NULL, health = NULL, updated_at = :now
WHERE worker = :worker RETURNING name
