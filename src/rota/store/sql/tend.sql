-- name: due
-- Whether anything is due, lapsed, overdue or left over; five looks at an index.
SELECT EXISTS (SELECT 1 FROM job WHERE status = 'scheduled' AND due_wall = 0 AND due_at <= :now)
    OR EXISTS (SELECT 1 FROM job WHERE status = 'scheduled' AND due_wall = 1 AND due_at <= :wall)
    OR EXISTS (SELECT 1 FROM job WHERE status = 'active' AND lease_expires_at IS NOT NULL AND lease_expires_at <= :now)
    OR EXISTS (SELECT 1 FROM worker WHERE check_at IS NOT NULL AND check_at <= :now)
    OR EXISTS (SELECT 1 FROM orchestrator WHERE status <> 'stopped' AND lease_expires_at <= :now)
    OR EXISTS (SELECT 1 FROM ripple)
