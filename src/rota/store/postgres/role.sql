-- name: of
-- Whether a role exists.
SELECT 1 FROM pg_roles WHERE rolname = :role

-- name: make_owner
-- The role that may do everything, migrate and prune included.
CREATE ROLE $owner NOLOGIN

-- name: make_enqueue
-- The role that may add jobs and see what became of them.
CREATE ROLE $enqueue NOLOGIN

-- name: make_worker
-- The role that may add, claim, settle and watch. It may delete jobs and runs, because a source's job is gone once it
-- is done.
CREATE ROLE $worker NOLOGIN

-- name: make_read
-- The role that may only read.
CREATE ROLE $read NOLOGIN

-- name: to_own
-- Statements that give the owner everything in the schema.
SELECT format('GRANT %I TO CURRENT_USER', '$owner') WHERE NOT pg_has_role(current_user, '$owner', 'USAGE')
UNION ALL SELECT format('ALTER SCHEMA %I OWNER TO %I', '$schema', '$owner')
UNION ALL SELECT format('ALTER TABLE %I.%I OWNER TO %I', schemaname, tablename, '$owner') FROM pg_tables WHERE schemaname = '$schema'
UNION ALL SELECT format('ALTER SEQUENCE %I.%I OWNER TO %I', schemaname, sequencename, '$owner') FROM pg_sequences
WHERE schemaname = '$schema' AND sequencename LIKE 'number%'

-- name: grant
-- The rights of each role. Locking a row takes the right to change something in it. Any right to change the gate allows
-- writing beside others, and the right to update it also allows writing alone (decision 14). Adding a job checks that
-- the caller's token was not revoked; the hashes of tokens are the owner's alone.
GRANT USAGE ON SCHEMA $schema TO $enqueue, $worker, $read;
GRANT SELECT ON ALL TABLES IN SCHEMA $schema TO $worker, $read;
REVOKE SELECT ON token FROM $worker, $read;
GRANT SELECT ON migration, job, queue, dependency, tally TO $enqueue;
GRANT SELECT (xid, facts) ON event TO $enqueue;
GRANT SELECT (id, revoked_at) ON token TO $enqueue;
GRANT INSERT ON gate TO $enqueue;
REVOKE INSERT ON job, dependency, event, tally FROM $enqueue;
GRANT INSERT (id, queue, kind, title, payload, priority, status, blocked_on, due_at, due_wall, key, limit_key, parent,
    max_attempts, timeout, created_at, trace) ON job TO $enqueue;
GRANT INSERT (job, needs, until_over) ON dependency TO $enqueue;
GRANT INSERT (at, actor, facts) ON event TO $enqueue;
GRANT INSERT (queue, status, shard, n) ON tally TO $enqueue;
GRANT INSERT (name, created_at), UPDATE (created_at) ON queue TO $enqueue;
GRANT UPDATE (dependents) ON job TO $enqueue;
GRANT UPDATE (n) ON tally TO $enqueue;
GRANT USAGE ON SEQUENCE number_job TO $enqueue;
GRANT $enqueue TO $worker;
GRANT UPDATE ON gate TO $worker;
GRANT USAGE ON SEQUENCE number_token TO $worker;
GRANT INSERT (source) ON job TO $worker;
GRANT INSERT ON run, worker, certificate, orchestrator, slot, ripple, source, source_memory, schedule, metric TO $worker;
GRANT UPDATE (n, total) ON metric TO $worker;
REVOKE UPDATE ON worker, orchestrator FROM $worker;
GRANT UPDATE ON job, certificate, slot, ripple, number, pulse, source, source_memory, schedule TO $worker;
GRANT UPDATE (rate_next_at, failures, paused_at, paused_by, pause_reason) ON queue TO $worker;
GRANT DELETE ON ripple, tally, metric, job, run, source_memory TO $worker

-- name: but_access
-- Statements that let a worker's role change the tables that keep whose token speaks for a row, but not that column.
SELECT format('GRANT UPDATE (%s) ON %I.%I TO %I', string_agg(quote_ident(attname), ', '), '$schema', relname, '$worker')
FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
WHERE relnamespace = '$schema'::regnamespace AND relname IN ('worker', 'orchestrator') AND attnum > 0 AND NOT attisdropped
    AND attname <> 'access' GROUP BY relname
