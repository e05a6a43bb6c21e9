-- name: about
-- The server's version, and the bytes that everything of rota takes.
SELECT current_setting('server_version'), CAST(coalesce(sum(pg_total_relation_size(pg_class.oid)), 0) AS bigint)
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = :schema AND relkind = 'r'

-- name: is_standby
-- Whether it only follows another server.
SELECT pg_is_in_recovery()

-- name: oldest
-- For how many seconds the oldest transaction of this database is open.
SELECT CAST(coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0) AS bigint) FROM pg_stat_activity
WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()

-- name: dead
-- Rows of jobs, and versions of them that wait to be cleared away.
SELECT n_live_tup, n_dead_tup FROM pg_stat_user_tables WHERE schemaname = :schema AND relname = 'job'

-- name: synchronous
-- Whether a commit waits for the disk.
SELECT current_setting('fsync'), current_setting('synchronous_commit')

-- name: end_soon
-- A transaction of a caller that holds a job must not stay open for long without a statement.
SELECT set_config('idle_in_transaction_session_timeout', '10s', true)
WHERE current_setting('idle_in_transaction_session_timeout')::interval NOT BETWEEN interval '1ms' AND interval '10s'

-- name: jit
-- Whether statements of this session are compiled by the server, which would take longer than most of them run.
SELECT current_setting('jit') = 'on' AND pg_jit_available()
