-- oldest: 1
-- The first schema: jobs with their claims as columns, runs, workers, queues, events, and what orchestrators need.
-- Instants and durations are microseconds, JSON is text. Columns for sources, batches and schedules stand ready.
-- No IN lists in checks and partial indexes of the hot tables: SQLite builds such a list anew for every row.

CREATE TABLE migration (
    number $int64 PRIMARY KEY,
    name TEXT NOT NULL,
    oldest $int64 NOT NULL,
    applied_at $int64 NOT NULL
);

CREATE TABLE boot (
    id TEXT PRIMARY KEY,
    clock_offset $int64 NOT NULL,
    seen_at $int64 NOT NULL
);

CREATE TABLE number (
    name TEXT PRIMARY KEY,
    value $int64 NOT NULL
);
INSERT INTO number (name, value) VALUES ('job', 0), ('token', 0), ('directive', 0), ('orchestrator', 0), ('blocked_cursor', 0);

CREATE TABLE queue (
    name TEXT PRIMARY KEY,
    paused_at $int64,
    paused_by TEXT,
    pause_reason TEXT,
    max_depth $int64,
    rate TEXT,
    rate_next_at $int64 NOT NULL DEFAULT 0,
    concurrency $int64,
    per_key $int64,
    breaker $int64,
    failures $int64 NOT NULL DEFAULT 0,
    fence TEXT CHECK (fence IN ('tell', 'end')),
    created_at $int64 NOT NULL
);
INSERT INTO queue (name, created_at) VALUES ('*', 0);

CREATE TABLE tally (
    queue TEXT NOT NULL,
    status TEXT NOT NULL CHECK ($job_state),
    shard $int64 NOT NULL DEFAULT 0,
    n $int64 NOT NULL,
    PRIMARY KEY (queue, status, shard)
);

CREATE TABLE job (
    id $int64 PRIMARY KEY,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    payload TEXT,
    priority $int64 NOT NULL,
    status TEXT NOT NULL CHECK ($job_state),
    blocked_on TEXT CHECK (blocked_on IS NULL OR $job_blocker),
    due_at $int64,
    due_wall $int64 NOT NULL DEFAULT 0,
    key TEXT,
    limit_key TEXT,
    parent $int64,
    source TEXT,
    batch $int64,
    schedule TEXT,
    trace TEXT,
    attempts $int64 NOT NULL DEFAULT 0,
    max_attempts $int64 NOT NULL,
    timeout $int64,
    generation $int64 NOT NULL DEFAULT 1,
    deaths $int64 NOT NULL DEFAULT 0,
    lapses $int64 NOT NULL DEFAULT 0,
    dependents $int64 NOT NULL DEFAULT 0,
    created_at $int64 NOT NULL,
    finished_at $int64,
    token $int64,
    worker TEXT,
    orchestrator $int64,
    claimed_at $int64,
    lease $int64,
    lease_expires_at $int64,
    renewed_count $int64 NOT NULL DEFAULT 0,
    result TEXT,
    error TEXT,
    note TEXT,
    checkpoint TEXT,
    CHECK ((status = 'blocked') = (blocked_on IS NOT NULL)),
    CHECK (status <> 'active' OR (token IS NOT NULL AND worker IS NOT NULL AND claimed_at IS NOT NULL)),
    CHECK (status <> 'active' OR orchestrator IS NULL OR lease_expires_at IS NULL)
);
CREATE INDEX job_ready ON job (queue, priority DESC, id) WHERE status = 'ready';
CREATE INDEX job_due ON job (due_wall, due_at) WHERE status = 'scheduled';
CREATE INDEX job_held ON job (worker) WHERE status = 'active';
CREATE INDEX job_lease ON job (lease_expires_at) WHERE status = 'active' AND lease_expires_at IS NOT NULL;
CREATE UNIQUE INDEX job_key ON job (queue, key) WHERE key IS NOT NULL;
CREATE INDEX job_child ON job (parent) WHERE parent IS NOT NULL;
CREATE INDEX job_blocked ON job (id) WHERE status = 'blocked' AND blocked_on = 'dependency';
CREATE INDEX job_failed ON job (id) WHERE status = 'failed';
CREATE INDEX job_admitted ON job (queue, limit_key) WHERE limit_key IS NOT NULL AND (status = 'ready' OR status = 'active');
CREATE INDEX job_crowded ON job (queue, limit_key, priority DESC, id) WHERE status = 'blocked' AND blocked_on = 'limit';

CREATE TABLE dependency (
    job $int64 NOT NULL,
    needs $int64 NOT NULL,
    PRIMARY KEY (job, needs)
);
CREATE INDEX dependency_needs ON dependency (needs, job);

CREATE TABLE ripple (
    job $int64 PRIMARY KEY,
    last_dependent $int64 NOT NULL
);

CREATE TABLE run (
    token $int64 PRIMARY KEY,
    job $int64 NOT NULL,
    worker TEXT NOT NULL,
    attempt $int64 NOT NULL,
    generation $int64 NOT NULL,
    claimed_at $int64 NOT NULL,
    ended_at $int64 NOT NULL,
    verb TEXT NOT NULL CHECK ($claim_verb),
    reason TEXT,
    error TEXT,
    note TEXT,
    renewed_count $int64 NOT NULL DEFAULT 0,
    transcript_path TEXT,
    stderr_path TEXT
);
CREATE INDEX run_of_job ON run (job);

CREATE TABLE worker (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    hostname TEXT NOT NULL,
    host TEXT NOT NULL,
    pid $int64,
    pid_start $int64,
    nonce TEXT,
    status TEXT NOT NULL CHECK ($worker_state),
    desired TEXT,
    orchestrator $int64,
    slot TEXT,
    queue TEXT,
    version TEXT,
    registered_at $int64 NOT NULL,
    last_heartbeat_at $int64 NOT NULL,
    check_at $int64,
    lease_expires_at $int64,
    heartbeat_interval $int64,
    heartbeat_count $int64 NOT NULL DEFAULT 0,
    success_count $int64 NOT NULL DEFAULT 0,
    error_count $int64 NOT NULL DEFAULT 0,
    last_error_at $int64,
    last_error_message TEXT,
    current_job $int64,
    metadata TEXT
);
CREATE INDEX worker_check ON worker (check_at) WHERE check_at IS NOT NULL;
CREATE INDEX worker_live ON worker (orchestrator) WHERE status NOT IN ('stopped', 'dead');

CREATE TABLE certificate (
    worker TEXT PRIMARY KEY,
    slot TEXT,
    died_at $int64 NOT NULL,
    reason TEXT NOT NULL,
    text TEXT,
    exit_code $int64,
    signal $int64,
    sent_by TEXT,
    job $int64,
    usage TEXT,
    last_frame TEXT,
    stderr_tail TEXT
);

CREATE TABLE orchestrator (
    id $int64 PRIMARY KEY,
    crew TEXT NOT NULL,
    host TEXT NOT NULL,
    hostname TEXT NOT NULL,
    pid $int64 NOT NULL,
    pid_start $int64,
    nonce TEXT,
    version TEXT,
    status TEXT NOT NULL CHECK ($orchestrator_state),
    lease_expires_at $int64 NOT NULL,
    exchange $int64 NOT NULL DEFAULT 0,
    acknowledged_directive $int64 NOT NULL DEFAULT 0,
    started_at $int64 NOT NULL,
    last_reconcile_at $int64,
    pools TEXT,
    settings TEXT
);
CREATE INDEX orchestrator_live ON orchestrator (lease_expires_at) WHERE status <> 'stopped';

CREATE TABLE pulse (
    id $int64 PRIMARY KEY CHECK (id = 1),
    at $int64 NOT NULL,
    graced $int64 NOT NULL,
    grace_from $int64 NOT NULL
);
INSERT INTO pulse (id, at, graced, grace_from) VALUES (1, 0, 0, 0);

CREATE TABLE event (
    id $identity,
    at $int64 NOT NULL,
    actor TEXT NOT NULL,
    facts TEXT NOT NULL
);
