-- name: get
-- One schedule.
SELECT $schedule_columns FROM schedule WHERE name = :name

-- name: lock
-- One schedule, locked to be changed.
SELECT $schedule_columns FROM schedule WHERE name = :name $for_update

-- name: all
-- Every schedule.
SELECT $schedule_columns FROM schedule ORDER BY name

-- name: due
-- Schedules that are due and not locked by another transaction, the longest due first.
SELECT $schedule_columns FROM schedule
WHERE paused_at IS NULL AND next_at IS NOT NULL AND next_at <= :wall ORDER BY next_at LIMIT :most $skip_locked

-- name: make
-- Insert a schedule.
INSERT INTO schedule (name, cron, timezone, missed, queue, kind, payload, priority, max_attempts, timeout, declared, next_at, created_at)
VALUES (:name, :cron, :timezone, :missed, :queue, :kind, :payload_json, :priority, :max_attempts, :timeout, :declared, :next_at, :now)

-- name: set
-- Change what a schedule declares.
UPDATE schedule SET cron = :cron, timezone = :timezone, missed = :missed, queue = :queue, kind = :kind, payload = :payload_json,
    priority = :priority, max_attempts = :max_attempts, timeout = :timeout, declared = :declared, next_at = :next_at
WHERE name = :name

-- name: own
-- Note who declared a schedule last: an access token, or NULL for a program beside the database.
UPDATE schedule SET access = :access WHERE name = :name

-- name: owner
-- The access token that declared a schedule, and when that was revoked.
SELECT schedule.access, token.revoked_at FROM schedule LEFT JOIN token ON token.id = schedule.access
WHERE schedule.name = :name

-- name: count_of_token
-- How many schedules one access token declared.
SELECT count(*) FROM schedule WHERE access = :access

-- name: of_tokens
-- The schedules that access tokens declared.
SELECT name FROM schedule WHERE access IS NOT NULL

-- name: advance
-- Move a schedule on to its next time, if it is still at the time that was read; no row means that another transaction
-- fired it (decision 24).
UPDATE schedule SET next_at = :next_at, error = NULL
WHERE name = :name AND next_at = :was AND paused_at IS NULL RETURNING name

-- name: refused
-- Note why a time of a schedule added no job.
UPDATE schedule SET error = :error WHERE name = :name

-- name: fired
-- Note the last job that a schedule added, and the time that it was for if it was for one.
UPDATE schedule SET fired_at = :now, fired_count = fired_count + :count, last_job = :job,
    last_at = coalesce(CAST(:last_at AS $int64), last_at) WHERE name = :name

-- name: pause
-- Pause a schedule; one that is paused already stays as it is.
UPDATE schedule SET paused_at = :now, pause_reason = :reason WHERE name = :name AND paused_at IS NULL RETURNING name

-- name: resume
-- Resume a schedule from its next time on.
UPDATE schedule SET paused_at = NULL, pause_reason = NULL, error = NULL, next_at = :next_at
WHERE name = :name AND paused_at IS NOT NULL RETURNING name

-- name: remove
-- Delete a schedule; its jobs stay.
DELETE FROM schedule WHERE name = :name RETURNING name

-- name: mark
-- Note the time of its schedule that a job is for.
UPDATE job SET scheduled_for = :scheduled_for WHERE id = :id
