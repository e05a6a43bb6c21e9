-- oldest: 1
-- Sources: what workers declare of them, how far each is, and a bounded memory of the keys that succeeded of late.
-- A key belongs to its source: two sources, or a source and a caller, may use the same one.

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
    told $int64 NOT NULL DEFAULT 0,
    PRIMARY KEY (source, hash)
);
CREATE INDEX source_memory_token ON source_memory (token);

DROP INDEX job_key;
CREATE UNIQUE INDEX job_key ON job (queue, key) WHERE key IS NOT NULL AND source IS NULL;
CREATE UNIQUE INDEX job_source ON job (source, key) WHERE source IS NOT NULL;
CREATE INDEX job_source_ready ON job (source) WHERE status = 'ready' AND source IS NOT NULL;
