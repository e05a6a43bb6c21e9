-- name: append
-- Write one event for everything that a transaction changed.
INSERT INTO event (at, actor, facts) VALUES (:at, :actor, :facts)

-- name: after
-- The events after a cursor, oldest first.
SELECT id, at, actor, facts FROM event WHERE id > :cursor ORDER BY id LIMIT :most

-- name: before
-- The events before a cursor, newest first.
SELECT id, at, actor, facts FROM event WHERE id < :cursor ORDER BY id DESC LIMIT :most

-- name: last
-- The newest cursor; 0 without any event.
SELECT coalesce(max(id), 0) FROM event

-- name: oldest
-- The oldest cursor that is left; 0 without any event.
SELECT coalesce(min(id), 0) FROM event

-- name: prune
-- Delete those of the oldest events that are before an instant. Apart from some moments, events are in the order of
-- time.
DELETE FROM event WHERE id IN
    (SELECT id FROM (SELECT id, at FROM event ORDER BY id LIMIT :most) AS oldest WHERE at < :before) RETURNING id

-- name: count_before
-- How many events are before an instant.
SELECT count(*) FROM event WHERE at < :before
