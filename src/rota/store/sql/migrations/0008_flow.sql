-- oldest: 1
-- Schedules: when each is due by the wall clock, and the job that it adds then. A job of one keeps the time that it is for.
-- A job may wait for others only until they are over, however they ended.

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

ALTER TABLE job ADD COLUMN scheduled_for $int64;
ALTER TABLE dependency ADD COLUMN until_over $int64 NOT NULL DEFAULT 0;
