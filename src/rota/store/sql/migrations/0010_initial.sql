-- oldest: 10
-- The schema of rota 0.1: jobs with their claims as columns, runs, workers, queues, events, and what orchestrators need.
-- Schemas 1 to 9 were those of development; databases that have one are refused (store/migrate.py).
-- Instants and durations are microseconds, JSON is text. Checks and partial indexes of the hot tables have no IN lists:
-- SQLite builds such a list anew for every row.

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

-- The queue * stands for all.
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

-- `batch` and `schedule` are filled by nothing yet. `isolated`: it was one of several jobs of a worker that died, so it runs
-- by itself next. A job whose kind its worker does not know waits until `unknown_until` for a worker that does.
-- `captured_by` is the access token that named the files of its run over HTTP, null where a program beside the database did.
CREATE TABLE job (
    id $int64 PRIMARY KEY,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    payload TEXT,
    priority $int64 NOT NULL,
    status TEXT NOT NULL CHECK ($job_state),
    blocked_on TEXT CHECK (blocked_on IS NULL OR $job_blocker),
    unknown_until $int64,
    due_at $int64,
    due_wall $int64 NOT NULL DEFAULT 0,
    key TEXT,
    limit_key TEXT,
    parent $int64,
    source TEXT,
    batch $int64,
    schedule TEXT,
    scheduled_for $int64,
    trace TEXT,
    attempts $int64 NOT NULL DEFAULT 0,
    max_attempts $int64 NOT NULL,
    timeout $int64,
    generation $int64 NOT NULL DEFAULT 1,
    deaths $int64 NOT NULL DEFAULT 0,
    isolated $int64 NOT NULL DEFAULT 0,
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
    transcript_path TEXT,
    stderr_path TEXT,
    captured_by TEXT,
    CHECK ((status = 'blocked') = (blocked_on IS NOT NULL)),
    CHECK (status <> 'active' OR (token IS NOT NULL AND worker IS NOT NULL AND claimed_at IS NOT NULL)),
    CHECK (status <> 'active' OR orchestrator IS NULL OR lease_expires_at IS NULL)
);
CREATE INDEX job_ready ON job (queue, priority DESC, id) WHERE status = 'ready';
CREATE INDEX job_due ON job (due_wall, due_at) WHERE status = 'scheduled';
CREATE INDEX job_held ON job (worker) WHERE status = 'active';
CREATE INDEX job_lease ON job (lease_expires_at) WHERE status = 'active' AND lease_expires_at IS NOT NULL;
-- A key belongs to its source: two sources, or a source and a caller, may use equal ones.
CREATE UNIQUE INDEX job_key ON job (queue, key) WHERE key IS NOT NULL AND source IS NULL;
CREATE UNIQUE INDEX job_source ON job (source, key) WHERE source IS NOT NULL;
CREATE INDEX job_source_ready ON job (source) WHERE status = 'ready' AND source IS NOT NULL;
CREATE INDEX job_child ON job (parent) WHERE parent IS NOT NULL;
CREATE INDEX job_blocked ON job (id) WHERE status = 'blocked' AND blocked_on = 'dependency';
CREATE INDEX job_failed ON job (id) WHERE status = 'failed';
CREATE INDEX job_admitted ON job (queue, limit_key) WHERE limit_key IS NOT NULL AND (status = 'ready' OR status = 'active');
CREATE INDEX job_crowded ON job (queue, limit_key, priority DESC, id) WHERE status = 'blocked' AND blocked_on = 'limit';
CREATE INDEX job_unknown ON job (queue, kind, id) WHERE status = 'blocked' AND blocked_on = 'kind';
CREATE INDEX job_unknown_until ON job (unknown_until) WHERE status = 'blocked' AND unknown_until IS NOT NULL;

-- `until_over`: until the other job has ended, however it did, rather than until it is done.
CREATE TABLE dependency (
    job $int64 NOT NULL,
    needs $int64 NOT NULL,
    until_over $int64 NOT NULL DEFAULT 0,
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
    stderr_path TEXT,
    captured_by TEXT
);
CREATE INDEX run_of_job ON run (job);

-- `kinds`: which it declared, as a JSON list, or true for all. `access`: the access token that registered it over HTTP.
CREATE TABLE worker (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    hostname TEXT NOT NULL,
    host TEXT NOT NULL,
    pid $int64,
    pid_start $int64,
    nonce TEXT,
    version TEXT,
    access TEXT,
    status TEXT NOT NULL CHECK ($worker_state),
    desired TEXT,
    orchestrator $int64,
    slot TEXT,
    queue TEXT,
    kinds TEXT,
    concurrency $int64 NOT NULL DEFAULT 1,
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

-- `access`: the access token that speaks for it over HTTP. `worker_ids`: those made for it over HTTP that it has not used.
CREATE TABLE orchestrator (
    id $int64 PRIMARY KEY,
    crew TEXT NOT NULL,
    host TEXT NOT NULL,
    hostname TEXT NOT NULL,
    pid $int64 NOT NULL,
    pid_start $int64,
    nonce TEXT,
    version TEXT,
    access TEXT,
    status TEXT NOT NULL CHECK ($orchestrator_state),
    desired TEXT,
    lease_expires_at $int64 NOT NULL,
    exchange $int64 NOT NULL DEFAULT 0,
    acknowledged_directive $int64 NOT NULL DEFAULT 0,
    worker_ids TEXT,
    started_at $int64 NOT NULL,
    last_reconcile_at $int64,
    pools TEXT,
    settings TEXT
);
CREATE INDEX orchestrator_live ON orchestrator (lease_expires_at) WHERE status <> 'stopped';

CREATE TABLE slot (
    name TEXT PRIMARY KEY,
    queue TEXT NOT NULL,
    n $int64 NOT NULL,
    crew TEXT NOT NULL,
    host TEXT NOT NULL,
    status TEXT NOT NULL CHECK ($slot_state),
    health TEXT,
    worker TEXT,
    wanted $int64 NOT NULL DEFAULT 1,
    restarts TEXT NOT NULL DEFAULT '[]',
    lifetime $int64 NOT NULL DEFAULT 0,
    unstarted $int64 NOT NULL DEFAULT 0,
    start_at $int64,
    failed_at $int64,
    failure_reason TEXT,
    updated_at $int64 NOT NULL,
    UNIQUE (queue, n)
);

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

CREATE TABLE source (
    name TEXT PRIMARY KEY,
    queue TEXT NOT NULL,
    task TEXT NOT NULL,
    every $int64 NOT NULL,
    low $int64 NOT NULL,
    batch $int64 NOT NULL,
    repeats $int64,
    filler $int64 NOT NULL,
    more $int64 NOT NULL DEFAULT 0,
    fill_count $int64 NOT NULL DEFAULT 0,
    added_count $int64 NOT NULL DEFAULT 0,
    last_fill_at $int64,
    last_fill_error TEXT,
    success_count $int64 NOT NULL DEFAULT 0,
    error_count $int64 NOT NULL DEFAULT 0,
    last_success_at $int64,
    last_success_worker TEXT,
    last_error_at $int64,
    last_error_message TEXT,
    last_error_worker TEXT,
    repeated_count $int64 NOT NULL DEFAULT 0,
    last_repeated_key TEXT,
    created_at $int64 NOT NULL
);

CREATE TABLE source_memory (
    source TEXT NOT NULL,
    hash $int64 NOT NULL,
    successes $int64 NOT NULL,
    at $int64 NOT NULL,
    token $int64 NOT NULL,
    reported $int64 NOT NULL DEFAULT 0,
    PRIMARY KEY (source, hash)
);
CREATE INDEX source_memory_token ON source_memory (token);

-- `access`: the access token that declared it over HTTP.
CREATE TABLE schedule (
    name TEXT PRIMARY KEY,
    cron TEXT NOT NULL,
    timezone TEXT NOT NULL,
    missed TEXT NOT NULL,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    payload TEXT,
    priority $int64 NOT NULL,
    max_attempts $int64,
    timeout $int64,
    declared $int64 NOT NULL,
    access TEXT,
    next_at $int64,
    last_at $int64,
    fired_at $int64,
    fired_count $int64 NOT NULL DEFAULT 0,
    last_job $int64,
    error TEXT,
    paused_at $int64,
    pause_reason TEXT,
    created_at $int64 NOT NULL
);
CREATE INDEX schedule_due ON schedule (next_at) WHERE paused_at IS NULL AND next_at IS NOT NULL;

CREATE TABLE token (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    hash TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at $int64 NOT NULL,
    last_used_at $int64,
    revoked_at $int64
);

CREATE TABLE metric (
    name TEXT NOT NULL,
    queue TEXT NOT NULL,
    label TEXT NOT NULL,
    bucket $int64 NOT NULL,
    shard $int64 NOT NULL DEFAULT 0,
    n $int64 NOT NULL,
    total $int64 NOT NULL,
    PRIMARY KEY (name, queue, label, bucket, shard)
);

-- Only `died_until` is used.
CREATE TABLE metric_mark (
    id $int64 PRIMARY KEY CHECK (id = 1),
    token $int64 NOT NULL,
    open_tokens TEXT NOT NULL,
    died_until $int64 NOT NULL
);
INSERT INTO metric_mark (id, token, open_tokens, died_until) VALUES (1, 0, '[]', 0);
