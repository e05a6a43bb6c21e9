-- name: take_leave
-- A seen worker whose orchestrator is gone becomes an unseen one that has just beaten; no row means that it is none.
UPDATE worker SET orchestrator = NULL, heartbeat_interval = :interval, check_at = :check_at, last_heartbeat_at = :now
WHERE id = :worker AND orchestrator IS NOT NULL AND status NOT IN ('stopped', 'dead') RETURNING id

-- name: take_leases
-- What it holds no longer hangs on that orchestrator: each claim gets a lease of its own.
UPDATE job SET orchestrator = NULL, lease = :lease, lease_expires_at = :lease_expires_at
WHERE worker = :worker AND status = 'active' AND orchestrator IS NOT NULL

-- name: renew
-- Extend the lease of the job in hand, even one that ran out while nobody took the job. No row: the claim is lost.
UPDATE job SET lease_expires_at = $greatest(lease_expires_at, :lease_expires_at), renewed_count = renewed_count + 1
WHERE id = :id AND token = :token AND worker = :worker AND status = 'active' AND orchestrator IS NULL RETURNING id

-- name: checkpoint
-- Keep what the worker wants the next attempt to know, if the claim is still its own.
UPDATE job SET checkpoint = :checkpoint WHERE id = :id AND token = :token AND worker = :worker AND status = 'active'

-- name: empty_slot
-- Nobody is in the slot any more, unless it has been filled again.
UPDATE slot SET status = 'empty', worker = NULL, start_at = NULL, health = NULL, updated_at = :now
WHERE worker = :worker RETURNING name
