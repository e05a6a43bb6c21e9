-- name: about
-- The server's version, and the bytes that all of rota takes.
SELECT current_setting('server_version'), CAST(coalesce(sum(pg_total_relation_size(pg_class.oid)), 0) AS bigint)
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = :schema AND relkind = 'r'

-- name: is_standby
-- Whether the server is a standby.
SELECT pg_is_in_recovery()

-- name: oldest
-- For how many seconds the oldest transaction of this database has been open.
SELECT CAST(coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0) AS bigint) FROM pg_stat_activity
WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()

-- name: dead
-- How many live and dead rows the table of jobs has.
SELECT n_live_tup, n_dead_tup FROM pg_stat_user_tables WHERE schemaname = :schema AND relname = 'job'

-- name: synchronous
-- Whether a commit waits for the disk.
SELECT current_setting('fsync'), current_setting('synchronous_commit')

-- name: end_soon
-- Bound how long a caller's transaction that holds a job may stay open without a statement (decision 18).
SELECT set_config('idle_in_transaction_session_timeout', '10s', true)
WHERE current_setting('idle_in_transaction_session_timeout')::interval NOT BETWEEN interval '1ms' AND interval '10s'

-- name: jit
-- Whether the server compiles statements of this session, which takes longer than most of them run.
SELECT current_setting('jit') = 'on' AND pg_jit_available()
