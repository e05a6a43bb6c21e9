-- name: due
-- Whether anything is due, lapsed, overdue or left over; a look at an index each.
SELECT EXISTS (SELECT 1 FROM job WHERE status = 'scheduled' AND due_wall = 0 AND due_at <= $now)
    OR EXISTS (SELECT 1 FROM job WHERE status = 'scheduled' AND due_wall = 1 AND due_at <= $wall)
    OR EXISTS (SELECT 1 FROM job WHERE status = 'active' AND lease_expires_at IS NOT NULL AND lease_expires_at <= $now)
    OR EXISTS (SELECT 1 FROM worker WHERE check_at IS NOT NULL AND check_at <= $now)
    OR EXISTS (SELECT 1 FROM orchestrator WHERE status <> 'stopped' AND lease_expires_at <= $now)
    OR EXISTS (SELECT 1 FROM schedule WHERE paused_at IS NULL AND next_at IS NOT NULL AND next_at <= $wall)
    OR EXISTS (SELECT 1 FROM ripple)

-- name: next
-- When something will be due, by kind; the last two are on the wall's clock. A join might walk all that is ready.
SELECT (SELECT min(due_at) FROM job WHERE status = 'scheduled' AND due_wall = 0),
    (SELECT min(lease_expires_at) FROM job WHERE status = 'active' AND lease_expires_at IS NOT NULL),
    (SELECT min(check_at) FROM worker WHERE check_at IS NOT NULL),
    (SELECT min(lease_expires_at) FROM orchestrator WHERE status <> 'stopped'),
    (SELECT min(rate_next_at) FROM queue WHERE rate IS NOT NULL AND paused_at IS NULL AND rate_next_at > $now
        AND (SELECT id FROM job WHERE job.queue = queue.name AND job.status = 'ready' LIMIT 1) IS NOT NULL),
    (SELECT min(due_at) FROM job WHERE status = 'scheduled' AND due_wall = 1),
    (SELECT min(next_at) FROM schedule WHERE paused_at IS NULL AND next_at IS NOT NULL)
