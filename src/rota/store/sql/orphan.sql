-- name: move_claims
-- A worker's claims hang on leases of their own.
UPDATE job SET orchestrator = NULL, lease = :lease, lease_expires_at = :lease_expires_at
WHERE worker = :worker AND status = 'active' AND orchestrator IS NOT NULL

-- name: move_worker
-- Nobody watches the worker any more: it is judged by its beats.
UPDATE worker SET orchestrator = NULL, heartbeat_interval = :interval, last_beat_at = :now, check_at = :check_at
WHERE id = :worker AND orchestrator IS NOT NULL AND status NOT IN ('stopped', 'dead')
