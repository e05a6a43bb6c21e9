-- name: offset
-- What to add to the time since this boot.
SELECT clock_offset FROM boot WHERE id = :boot

-- name: remember
-- Fix the clock of a boot once, never behind what an earlier boot has written.
INSERT INTO boot (id, clock_offset, seen_at)
SELECT :boot, max(:offset, coalesce((SELECT at FROM event ORDER BY id DESC LIMIT 1), 0) - :since_boot), :offset + :since_boot
WHERE NOT EXISTS (SELECT 1 FROM boot WHERE id = :boot)
