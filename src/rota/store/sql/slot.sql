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
-- The numbers of a queue's slots.
SELECT n FROM slot WHERE queue = :queue ORDER BY n

-- name: count_of_token
-- How many slots the crews have that one access token began over HTTP.
SELECT count(*) FROM slot WHERE EXISTS
    (SELECT 1 FROM orchestrator
     WHERE orchestrator.crew = slot.crew AND orchestrator.host = slot.host AND orchestrator.access = :access)

-- name: make
-- Make a slot.
INSERT INTO slot (name, queue, n, crew, host, status, updated_at) VALUES (:name, :queue, :n, :crew, :host, 'empty', :now)

-- name: want
-- Write whether a slot should be filled; its history stays either way.
UPDATE slot SET wanted = :wanted, updated_at = :now WHERE name = :name

-- name: move
-- Move a slot from one state to another; no row means that another transaction moved it first.
UPDATE slot SET status = :new, worker = :worker, start_at = :start_at, health = NULL, updated_at = :now
WHERE name = :name AND status = :old RETURNING name

-- name: come_up
-- Note that the slot's worker is ready, and forgive starts that ran out of time. A slot whose worker's death was
-- written first stays as it is.
UPDATE slot SET status = 'up', health = 'healthy', unstarted = 0, updated_at = :now
WHERE name = :name AND worker = :worker AND status = 'starting' RETURNING name

-- name: stop
-- Note that the slot's worker was asked to leave and has not left yet.
UPDATE slot SET status = 'stopping', updated_at = :now
WHERE name = :name AND worker IS NOT NULL AND status IN ('starting', 'up') RETURNING worker

-- name: empty
-- Empty a slot whose orchestrator leaves. A failed slot stays failed.
UPDATE slot SET status = 'empty', worker = NULL, start_at = NULL, health = NULL, updated_at = :now
WHERE status <> 'failed' AND EXISTS
    (SELECT 1 FROM orchestrator
     WHERE orchestrator.id = :orchestrator AND orchestrator.crew = slot.crew AND orchestrator.host = slot.host)

-- name: feel
-- Write the health of the slot's worker, if it still has one.
UPDATE slot SET health = :health WHERE name = :name AND worker IS NOT NULL

-- name: served
-- The queues that a live orchestrator has a pool for; the pool `default` serves all others.
SELECT DISTINCT queue FROM slot
WHERE wanted = 1 AND queue <> 'default' AND EXISTS
    (SELECT 1 FROM orchestrator
     WHERE orchestrator.crew = slot.crew AND orchestrator.host = slot.host AND orchestrator.status <> 'stopped')

-- name: remember
-- Write the history of a slot's restarts.
UPDATE slot SET restarts = :restarts, lifetime = :lifetime, failed_at = :failed_at, failure_reason = :failure_reason,
    unstarted = :unstarted, updated_at = :now
WHERE name = :name

-- name: forget
-- Delete a slot with its history.
DELETE FROM slot WHERE name = :name RETURNING name
