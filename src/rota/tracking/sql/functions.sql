-- The calls that workers make. Each takes the clock once, so that the times one call writes are equal.

-- name: _worker_start
-- Register a worker; its id.
CREATE OR REPLACE FUNCTION ai._worker_start(version text, expected_heartbeat_interval interval)
RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    moment timestamptz := clock_timestamp();
    worker_id uuid;
BEGIN
    INSERT INTO ai.vectorizer_worker_process (version, started, expected_heartbeat_interval, last_heartbeat)
    VALUES (version, moment, expected_heartbeat_interval, moment)
    RETURNING id INTO worker_id;
    RETURN worker_id;
END
$body$

-- name: _worker_heartbeat
-- A sign of life with what was counted since the last; an unknown worker is silent, a missing message keeps the last.
CREATE OR REPLACE FUNCTION ai._worker_heartbeat(
    worker_id uuid,
    num_successes_since_last_heartbeat bigint,
    num_errors_since_last_heartbeat bigint,
    error_message text
)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    UPDATE ai.vectorizer_worker_process AS process SET
        last_heartbeat = moment,
        heartbeat_count = process.heartbeat_count + 1,
        success_count = process.success_count + num_successes_since_last_heartbeat,
        error_count = process.error_count + num_errors_since_last_heartbeat,
        last_error_at = CASE WHEN error_message IS NULL THEN process.last_error_at ELSE moment END,
        last_error_message = coalesce(error_message, process.last_error_message)
    WHERE process.id = worker_id;
END
$body$

-- name: _worker_progress
-- Count successes, and one error where there is a message; an unknown vectorizer is a foreign-key error.
CREATE OR REPLACE FUNCTION ai._worker_progress(
    worker_id uuid,
    worker_vectorizer_id int4,
    num_successes bigint,
    error_message text
)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    moment timestamptz := clock_timestamp();
    failed boolean := error_message IS NOT NULL;
BEGIN
    INSERT INTO ai.vectorizer_worker_progress AS kept (
        vectorizer_id, success_count, error_count, last_success_at, last_success_process_id,
        last_error_at, last_error_message, last_error_process_id, updated_at
    )
    VALUES (
        worker_vectorizer_id,
        num_successes,
        CASE WHEN failed THEN 1 ELSE 0 END,
        CASE WHEN failed THEN NULL ELSE moment END,
        CASE WHEN failed THEN NULL ELSE worker_id END,
        CASE WHEN failed THEN moment END,
        error_message,
        CASE WHEN failed THEN worker_id END,
        moment
    )
    ON CONFLICT (vectorizer_id) DO UPDATE SET
        success_count = kept.success_count + excluded.success_count,
        error_count = kept.error_count + excluded.error_count,
        last_success_at = coalesce(excluded.last_success_at, kept.last_success_at),
        last_success_process_id = coalesce(excluded.last_success_process_id, kept.last_success_process_id),
        last_error_at = coalesce(excluded.last_error_at, kept.last_error_at),
        last_error_message = coalesce(excluded.last_error_message, kept.last_error_message),
        last_error_process_id = coalesce(excluded.last_error_process_id, kept.last_error_process_id),
        updated_at = excluded.updated_at;
END
$body$
