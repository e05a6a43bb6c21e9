-- name: after
-- The events that a cursor's reader has not seen: those whose transaction was not over when the cursor was taken.
SELECT id, at, actor, facts, pg_current_snapshot()::text FROM event
WHERE xid >= pg_snapshot_xmin(:seen::pg_snapshot) AND xid < pg_snapshot_xmax(pg_current_snapshot())
    AND NOT pg_visible_in_snapshot(xid, :seen::pg_snapshot) ORDER BY id LIMIT :most

-- name: rest
-- The rest of a page: what was over when the page was read, and not when the page before it was.
SELECT id, at, actor, facts FROM event
WHERE id > :id AND xid >= pg_snapshot_xmin(:seen::pg_snapshot) AND NOT pg_visible_in_snapshot(xid, :seen::pg_snapshot)
    AND pg_visible_in_snapshot(xid, :page::pg_snapshot) ORDER BY id LIMIT :most

-- name: before
-- The newest events before an id.
SELECT id, at, actor, facts, pg_current_snapshot()::text FROM event WHERE id < :id ORDER BY id DESC LIMIT :most

-- name: rebase
-- Move events restored from another server into this server's past: by their transaction ids they are in its future.
UPDATE event SET xid = '3' WHERE xid >= pg_snapshot_xmax(pg_current_snapshot()) RETURNING id

-- name: last
-- This moment as a cursor.
SELECT pg_current_snapshot()::text

-- name: mine
-- The facts of this transaction so far.
SELECT facts FROM event WHERE xid = pg_current_xact_id()

-- name: reaches
-- Whether all that a cursor's reader has not seen is still there: it has seen the oldest event, or none was ever
-- deleted.
SELECT pg_snapshot_xmin(:seen::pg_snapshot) <= pg_snapshot_xmax(pg_current_snapshot())
    AND coalesce((SELECT id = 1 OR pg_visible_in_snapshot(xid, :seen::pg_snapshot) FROM event ORDER BY id LIMIT 1), TRUE)
