-- name: there
-- Whether the schema exists, filled or not.
SELECT 1 FROM pg_namespace WHERE nspname = :schema

-- name: make
-- Make the schema.
CREATE SCHEMA $schema

-- name: after_10
-- What only PostgreSQL has: sequences, which draw numbers without waiting; the transaction of each event; and free
-- space in pages whose rows change often, so that a change stays on its page and touches no index. The gate is a table
-- that is only ever locked, which takes a right to it (decision 14). Whoever may not set `finished_at` cannot add a job
-- that is already over.
CREATE SEQUENCE number_job CACHE 1;
CREATE SEQUENCE number_token CACHE 1;
DELETE FROM number WHERE name IN ('job', 'token');
ALTER TABLE event ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX event_xid ON event (xid);
ALTER TABLE job SET (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE job ADD CHECK (finished_at IS NOT NULL OR (status <> 'done' AND status <> 'failed' AND status <> 'cancelled'));
ALTER TABLE worker SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
ALTER TABLE orchestrator SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
ALTER TABLE tally SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
ALTER TABLE queue SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
ALTER TABLE number SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
ALTER TABLE pulse SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
ALTER TABLE metric SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE TABLE gate (nothing BIGINT CHECK (FALSE));

-- name: version
-- Whether the schema has rota's tables, and how many tables it has.
SELECT to_regclass(:schema || '.migration') IS NOT NULL,
    (SELECT count(*) FROM pg_tables WHERE schemaname = :schema)

-- name: place
-- What tells this database from every other, however its URL is spelt: the server's port, which tells a cluster from
-- its physical copy beside it, and the database's oid; and whether the cluster's own id may be read.
SELECT current_setting('port'), oid, has_function_privilege(to_regprocedure('pg_catalog.pg_control_system()'), 'EXECUTE')
FROM pg_database WHERE datname = current_database()

-- name: cluster
-- The cluster's id, which its standbys share.
SELECT system_identifier FROM pg_catalog.pg_control_system()

-- name: number
-- The number of the newest migration.
SELECT coalesce(max(number), 0) FROM migration

-- name: tables
-- The tables of the schema.
SELECT tablename FROM pg_tables WHERE schemaname = :schema

-- name: invalid
-- How many indexes are invalid, after a crash of the server or an interrupted REINDEX.
SELECT count(*) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = :schema AND NOT (indisvalid AND indisready)

-- name: remove
-- Drop the schema with everything in it.
DROP SCHEMA IF EXISTS $schema CASCADE
