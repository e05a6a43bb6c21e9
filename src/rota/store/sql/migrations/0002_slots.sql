-- oldest: 1
-- Slots: the lasting places that workers fill, with the history of their restarts.

CREATE TABLE slot (
    name TEXT PRIMARY KEY,
    queue TEXT NOT NULL,
    n $int64 NOT NULL,
    crew TEXT NOT NULL,
    host TEXT NOT NULL,
    status TEXT NOT NULL CHECK ($slot_state),
    worker TEXT,
    wanted $int64 NOT NULL DEFAULT 1,
    restarts TEXT NOT NULL DEFAULT '[]',
    lifetime $int64 NOT NULL DEFAULT 0,
    start_at $int64,
    failed_at $int64,
    failure_reason TEXT,
    updated_at $int64 NOT NULL,
    UNIQUE (queue, n)
);
