-- name: get
-- One schedule.
SELECT $schedule_columns FROM schedule WHERE name = :name

-- name: lock
-- One schedule, about to be changed.
SELECT $schedule_columns FROM schedule WHERE name = :name $for_update

-- name: all
-- Every schedule.
SELECT $schedule_columns FROM schedule ORDER BY name

-- name: due
-- Those that are due and that nobody else is busy with, longest due first.
SELECT $schedule_columns FROM schedule
WHERE paused_at IS NULL AND next_at IS NOT NULL AND next_at <= :wall ORDER BY next_at LIMIT :most $skip_locked

-- name: make
-- A schedule that was not known before.
INSERT INTO schedule (name, cron, timezone, missed, queue, kind, payload, priority, max_attempts, timeout, declared, next_at, created_at)
VALUES (:name, :cron, :timezone, :missed, :queue, :kind, :payload_json, :priority, :max_attempts, :timeout, :declared, :next_at, :now)

-- name: set
-- It was said in another way.
UPDATE schedule SET cron = :cron, timezone = :timezone, missed = :missed, queue = :queue, kind = :kind, payload = :payload_json,
    priority = :priority, max_attempts = :max_attempts, timeout = :timeout, declared = :declared, next_at = :next_at
WHERE name = :name

-- name: own
-- Who declared it last: an access token, or null for a program beside the database.
UPDATE schedule SET access = :access WHERE name = :name

-- name: owner
-- The access token that declared it, and when that was revoked.
SELECT schedule.access, token.revoked_at FROM schedule LEFT JOIN token ON token.id = schedule.access
WHERE schedule.name = :name

-- name: count_of_token
-- How many one access token declared.
SELECT count(*) FROM schedule WHERE access = :access

-- name: of_tokens
-- Those that access tokens declared.
SELECT name FROM schedule WHERE access IS NOT NULL

-- name: advance
-- It fires: its next time, conditional on the one that was read; no row means that someone else was first.
UPDATE schedule SET next_at = :next_at, error = NULL
WHERE name = :name AND next_at = :was AND paused_at IS NULL RETURNING name

-- name: refused
-- Its time brought no job.
UPDATE schedule SET error = :error WHERE name = :name

-- name: fired
-- The job that it added last, and the time that it was for, if it was for one.
UPDATE schedule SET fired_at = :now, fired_count = fired_count + :count, last_job = :job,
    last_at = coalesce(CAST(:last_at AS $int64), last_at) WHERE name = :name

-- name: pause
-- It does nothing until it is resumed.
UPDATE schedule SET paused_at = :now, pause_reason = :reason WHERE name = :name AND paused_at IS NULL RETURNING name

-- name: resume
-- It is due again, from now on.
UPDATE schedule SET paused_at = NULL, pause_reason = NULL, error = NULL, next_at = :next_at
WHERE name = :name AND paused_at IS NOT NULL RETURNING name

-- name: remove
-- It is gone; its jobs stay.
DELETE FROM schedule WHERE name = :name RETURNING name

-- name: mark
-- A job is for this time of its schedule.
UPDATE job SET scheduled_for = :scheduled_for WHERE id = :id
