-- What people look at, and cleaning up.

-- name: workers
-- All worker rows, and how many of them are dead.
SELECT count(*), count(*) FILTER (WHERE last_heartbeat < clock_timestamp() - expected_heartbeat_interval * 2)
FROM ai.vectorizer_worker_process

-- name: list
-- Workers that live, or those that missed two beats; the latest to beat first.
SELECT id::text, version, started, expected_heartbeat_interval, last_heartbeat, heartbeat_count,
       success_count, error_count, last_error_at, last_error_message
FROM ai.vectorizer_worker_process
WHERE (last_heartbeat < clock_timestamp() - expected_heartbeat_interval * 2) = %(dead)s
ORDER BY last_heartbeat DESC, id
LIMIT %(limit)s

-- name: vectorizers
SELECT v.id, v.source_table::text, coalesce(p.success_count, 0), coalesce(p.error_count, 0), p.last_success_at,
       p.last_error_at, p.last_error_message, p.updated_at
FROM ai.vectorizer v LEFT JOIN ai.vectorizer_worker_progress p ON p.vectorizer_id = v.id
ORDER BY v.id

-- name: now
SELECT clock_timestamp()

-- name: prune
-- Forget workers that are dead and have been silent for longer than this; never one that lives.
DELETE FROM ai.vectorizer_worker_process
WHERE last_heartbeat < clock_timestamp() - %(older)s::interval
  AND last_heartbeat < clock_timestamp() - expected_heartbeat_interval * 2
