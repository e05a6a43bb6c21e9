-- name: there
-- Whether the schema is there, filled or not.
SELECT 1 FROM pg_namespace WHERE nspname = :schema

-- name: make
-- Where all of it is kept.
CREATE SCHEMA $schema

-- name: after_10
-- What only PostgreSQL has: numbers drawn without waiting, the transaction of each event, and room in rows that change
-- often, so that a change stays on its page and touches no index. The gate is a table for its locks alone, which nobody can
-- take without a right to it. It never has a row. And a job that is over has ended at some time: so who may not set that
-- adds none.
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
-- The schema's number, 0 where there is no schema yet; and how many tables of others stand in its place.
SELECT to_regclass(:schema || '.migration') IS NOT NULL,
    (SELECT count(*) FROM pg_tables WHERE schemaname = :schema)

-- name: place
-- What tells this database from every other, however its URL is spelt: the server's port, which tells a cluster from its
-- physical copy beside it, and the database's number; and whether the cluster's own number may be read.
SELECT current_setting('port'), oid, has_function_privilege(to_regprocedure('pg_catalog.pg_control_system()'), 'EXECUTE')
FROM pg_database WHERE datname = current_database()

-- name: cluster
-- The cluster's number, which a standby has too.
SELECT system_identifier FROM pg_catalog.pg_control_system()

-- name: number
-- The newest migration.
SELECT coalesce(max(number), 0) FROM migration

-- name: tables
-- The tables that are there.
SELECT tablename FROM pg_tables WHERE schemaname = :schema

-- name: invalid
-- Indexes that are not whole, after a server's crash or an interrupted REINDEX.
SELECT count(*) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = :schema AND NOT (indisvalid AND indisready)

-- name: remove
-- All of it, for good.
DROP SCHEMA IF EXISTS $schema CASCADE
