-- name: of_crew
-- The slots of one crew on one host, in order.
SELECT $slot_columns FROM slot WHERE crew = :crew AND host = :host ORDER BY queue, n

-- name: all
-- Every slot.
SELECT $slot_columns FROM slot ORDER BY queue, n

-- name: get
-- One slot.
SELECT $slot_columns FROM slot WHERE name = :name

-- name: host
-- The host that a slot is on.
SELECT host FROM slot WHERE name = :name

-- name: taken
-- The numbers that a queue's slots have.
SELECT n FROM slot WHERE queue = :queue ORDER BY n

-- name: count_of_token
-- How many slots the crews have that one access token began over HTTP.
SELECT count(*) FROM slot WHERE EXISTS
    (SELECT 1 FROM orchestrator
     WHERE orchestrator.crew = slot.crew AND orchestrator.host = slot.host AND orchestrator.access = :access)

-- name: make
-- A new place for a worker.
INSERT INTO slot (name, queue, n, crew, host, status, updated_at) VALUES (:name, :queue, :n, :crew, :host, 'empty', :now)

-- name: want
-- Whether a slot should be filled; its history stays either way.
UPDATE slot SET wanted = :wanted, updated_at = :now WHERE name = :name

-- name: move
-- Move a slot from one state to another; no row means that somebody else moved it first.
UPDATE slot SET status = :new, worker = :worker, start_at = :start_at, health = NULL, updated_at = :now
WHERE name = :name AND status = :old RETURNING name

-- name: come_up
-- Its worker is ready: starts that ran out of time are forgiven. One whose death was written first stays dead.
UPDATE slot SET status = 'up', health = 'healthy', unstarted = 0, updated_at = :now
WHERE name = :name AND worker = :worker AND status = 'starting' RETURNING name

-- name: stop
-- Its worker was asked to leave, and has not left yet.
UPDATE slot SET status = 'stopping', updated_at = :now
WHERE name = :name AND worker IS NOT NULL AND status IN ('starting', 'up') RETURNING worker

-- name: empty
-- Its orchestrator leaves: nothing waits to be started any more. A slot that failed stays so.
UPDATE slot SET status = 'empty', worker = NULL, start_at = NULL, health = NULL, updated_at = :now
WHERE status <> 'failed' AND EXISTS
    (SELECT 1 FROM orchestrator
     WHERE orchestrator.id = :orchestrator AND orchestrator.crew = slot.crew AND orchestrator.host = slot.host)

-- name: feel
-- The health of its worker, if it still has one.
UPDATE slot SET health = :health WHERE name = :name AND worker IS NOT NULL

-- name: served
-- The queues that a living orchestrator has a pool for; the pool default serves all others.
SELECT DISTINCT queue FROM slot
WHERE wanted = 1 AND queue <> 'default' AND EXISTS
    (SELECT 1 FROM orchestrator
     WHERE orchestrator.crew = slot.crew AND orchestrator.host = slot.host AND orchestrator.status <> 'stopped')

-- name: remember
-- The history of its restarts.
UPDATE slot SET restarts = :restarts, lifetime = :lifetime, failed_at = :failed_at, failure_reason = :failure_reason,
    unstarted = :unstarted, updated_at = :now
WHERE name = :name

-- name: forget
-- Remove a slot with its history.
DELETE FROM slot WHERE name = :name RETURNING name
