-- Looking at what is there, and the small changes of `install` and `uninstall`.

-- name: one_at_a_time
-- Two installations wait for each other; the lock ends with the transaction.
SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('rota tracking', 0))

-- name: schema
-- Whether the schema exists, and its comment.
SELECT pg_catalog.obj_description(oid, 'pg_namespace') FROM pg_catalog.pg_namespace WHERE nspname = 'ai'

-- name: tables
-- Tables and indexes in the schema with their comments.
SELECT c.relname, pg_catalog.obj_description(c.oid, 'pg_class')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'ai' AND c.relname = ANY (%(names)s)

-- name: columns
SELECT a.attname
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'ai' AND c.relname = %(table)s AND a.attnum > 0 AND NOT a.attisdropped

-- name: indexed
-- Whether any index begins with the last heartbeat, whatever its name.
SELECT EXISTS (
    SELECT 1 FROM pg_catalog.pg_index i
    JOIN pg_catalog.pg_class c ON c.oid = i.indrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
    WHERE n.nspname = 'ai' AND c.relname = 'vectorizer_worker_process' AND a.attname = 'last_heartbeat'
)

-- name: functions
-- Every overload of our functions: its name, arguments and comment.
SELECT p.proname, pg_catalog.pg_get_function_identity_arguments(p.oid), pg_catalog.obj_description(p.oid, 'pg_proc')
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = 'ai' AND p.proname = ANY (%(names)s)

-- name: drop_function
DROP FUNCTION {function}({arguments})

-- name: drop_table
DROP TABLE {table}

-- name: drop_index
DROP INDEX {index}

-- name: empty
-- Whether nothing is left in the schema.
SELECT NOT EXISTS (SELECT 1 FROM pg_catalog.pg_class c WHERE c.relnamespace = 'ai'::pg_catalog.regnamespace)
   AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'ai'::pg_catalog.regnamespace)
   AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_type t WHERE t.typnamespace = 'ai'::pg_catalog.regnamespace)

-- name: drop_schema
DROP SCHEMA ai

-- name: mark
COMMENT ON {kind} {name} IS {text}

-- name: role
SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = %(role)s

-- name: grant_schema
GRANT USAGE ON SCHEMA ai TO {role}

-- name: grant_read
GRANT SELECT ON ai.vectorizer TO {role}

-- name: grant_register
-- Only in a table of ours is a row of a worker's own at its place.
GRANT INSERT ON ai.vectorizer TO {role}

-- name: grant_write
GRANT SELECT, INSERT, UPDATE ON ai.vectorizer_worker_process, ai.vectorizer_worker_progress TO {role}

-- name: grant_call
GRANT EXECUTE ON FUNCTION
    ai._worker_start(text, interval),
    ai._worker_heartbeat(uuid, bigint, bigint, text),
    ai._worker_progress(uuid, int4, bigint, text)
TO {role}
