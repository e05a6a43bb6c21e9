-- What a worker sends. Numbers go without a cast, so that the older functions with `int` are called as well.

-- name: fence
-- Wait until no earlier transaction of this tracker is open, and let none wait for ever on this one.
SELECT pg_catalog.set_config('lock_timeout', '5s', true),
       pg_catalog.set_config('statement_timeout', '10s', true),
       pg_catalog.set_config('idle_in_transaction_session_timeout', '10s', true),
       pg_catalog.pg_advisory_xact_lock(%(key)s)

-- name: count
-- How many heartbeats of these workers have arrived; no row means that the worker is not registered.
SELECT id, heartbeat_count FROM ai.vectorizer_worker_process WHERE id = ANY (%(workers)s::uuid[])

-- name: start
-- Register so many workers.
SELECT ai._worker_start(%(version)s, %(every)s) FROM pg_catalog.generate_series(1, %(times)s)

-- name: heartbeat
-- One heartbeat of each worker.
SELECT ai._worker_heartbeat(worker, successes, errors, message)
FROM unnest(%(workers)s::uuid[], %(successes)s, %(errors)s, %(messages)s::text[])
     AS heartbeat (worker, successes, errors, message)

-- name: progress
SELECT ai._worker_progress(%(worker)s, %(vectorizer)s, %(successes)s, %(message)s)

-- name: more_errors
-- An error call counts one error, so as many calls as there are errors.
SELECT ai._worker_progress(%(worker)s, %(vectorizer)s, 0, %(message)s) FROM pg_catalog.generate_series(1, %(times)s)

-- name: vectorizer
-- The vectorizer that reads this table; the first, if there are several.
SELECT id FROM ai.vectorizer WHERE source_table::text = %(table)s ORDER BY id LIMIT 1

-- name: is_ours
-- Whether `rota tracking install` made the table of vectorizers, so that a row of ours has a place in it.
SELECT pg_catalog.obj_description('ai.vectorizer'::pg_catalog.regclass, 'pg_class') = %(mark)s

-- name: make_vectorizer
INSERT INTO ai.vectorizer (source_table) VALUES (%(table)s) RETURNING id

-- name: rights
-- What is there and what this role may do with it; the catalogue shows both to everybody, information_schema does not.
SELECT 'schema', 'ai', 'USAGE', pg_catalog.has_schema_privilege(oid, 'USAGE'), current_user
FROM pg_catalog.pg_namespace WHERE nspname = 'ai'
UNION ALL
SELECT 'table', c.relname, r.privilege, pg_catalog.has_table_privilege(c.oid, r.privilege), current_user
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace,
     (VALUES ('SELECT'), ('INSERT'), ('UPDATE')) AS r (privilege)
WHERE n.nspname = 'ai' AND c.relname IN ('vectorizer_worker_process', 'vectorizer_worker_progress')
UNION ALL
SELECT 'function', p.oid::pg_catalog.regprocedure::text, 'EXECUTE',
       pg_catalog.has_function_privilege(p.oid, 'EXECUTE'), current_user
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = 'ai' AND p.proname IN ('_worker_start', '_worker_heartbeat', '_worker_progress')
