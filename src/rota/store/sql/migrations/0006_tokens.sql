-- oldest: 1
-- Access tokens of the HTTP API, which of them registered a worker, and what the metrics have counted so far.

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
ALTER TABLE worker ADD COLUMN access TEXT;

CREATE TABLE metric (
    name TEXT NOT NULL,
    queue TEXT NOT NULL,
    label TEXT NOT NULL,
    bucket $int64 NOT NULL,
    n $int64 NOT NULL,
    total $int64 NOT NULL,
    PRIMARY KEY (name, queue, label, bucket)
);

CREATE TABLE metric_mark (
    id $int64 PRIMARY KEY CHECK (id = 1),
    token $int64 NOT NULL,
    open_tokens TEXT NOT NULL,
    died_until $int64 NOT NULL
);
INSERT INTO metric_mark (id, token, open_tokens, died_until) VALUES (1, 0, '[]', 0);
