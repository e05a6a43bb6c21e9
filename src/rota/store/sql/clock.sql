-- name: offset
-- The offset that this boot's clock adds to the time since boot (decision 6).
SELECT clock_offset FROM boot WHERE id = :boot

-- name: remember
-- Fix the offset of a boot once, so that no reading is behind what an earlier boot has written.
INSERT INTO boot (id, clock_offset, seen_at)
SELECT :boot, max(:offset, coalesce((SELECT at FROM event ORDER BY id DESC LIMIT 1), 0) - :since_boot), :offset + :since_boot
WHERE NOT EXISTS (SELECT 1 FROM boot WHERE id = :boot)
