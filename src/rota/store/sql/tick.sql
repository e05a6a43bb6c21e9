-- name: due
-- Whether anything is due, lapsed, overdue or left over; NULL is no. Each is the first entry of an index: with EXISTS
-- or min(), PostgreSQL walked all scheduled jobs of a table that was never analysed (decision 25).
SELECT (SELECT due_at FROM job WHERE status = 'scheduled' AND due_wall = 0 AND due_at IS NOT NULL ORDER BY due_at LIMIT 1) <= $now
    OR (SELECT due_at FROM job WHERE status = 'scheduled' AND due_wall = 1 AND due_at IS NOT NULL ORDER BY due_at LIMIT 1) <= $wall
    OR (SELECT lease_expires_at FROM job WHERE status = 'active' AND lease_expires_at IS NOT NULL ORDER BY lease_expires_at LIMIT 1) <= $now
    OR (SELECT check_at FROM worker WHERE check_at IS NOT NULL ORDER BY check_at LIMIT 1) <= $now
    OR (SELECT lease_expires_at FROM orchestrator WHERE status <> 'stopped' ORDER BY lease_expires_at LIMIT 1) <= $now
    OR (SELECT next_at FROM schedule WHERE paused_at IS NULL AND next_at IS NOT NULL ORDER BY next_at LIMIT 1) <= $wall
    OR (SELECT unknown_until FROM job WHERE status = 'blocked' AND unknown_until IS NOT NULL ORDER BY unknown_until LIMIT 1) <= $now
    OR EXISTS (SELECT 1 FROM ripple)

-- name: next
-- When something will be due, by kind; the last two by the wall clock. Each is the first entry of an index, as above.
SELECT (SELECT due_at FROM job WHERE status = 'scheduled' AND due_wall = 0 AND due_at IS NOT NULL ORDER BY due_at LIMIT 1),
    (SELECT lease_expires_at FROM job WHERE status = 'active' AND lease_expires_at IS NOT NULL ORDER BY lease_expires_at LIMIT 1),
    (SELECT check_at FROM worker WHERE check_at IS NOT NULL ORDER BY check_at LIMIT 1),
    (SELECT lease_expires_at FROM orchestrator WHERE status <> 'stopped' ORDER BY lease_expires_at LIMIT 1),
    (SELECT unknown_until FROM job WHERE status = 'blocked' AND unknown_until IS NOT NULL ORDER BY unknown_until LIMIT 1),
    (SELECT due_at FROM job WHERE status = 'scheduled' AND due_wall = 1 AND due_at IS NOT NULL ORDER BY due_at LIMIT 1),
    (SELECT next_at FROM schedule WHERE paused_at IS NULL AND next_at IS NOT NULL ORDER BY next_at LIMIT 1)
