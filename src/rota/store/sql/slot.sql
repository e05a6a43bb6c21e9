-- name: of_crew
-- The slots of one crew on one host, in order.
SELECT $slot_columns FROM slot WHERE crew = :crew AND host = :host ORDER BY queue, n

-- name: all
-- Every slot.
SELECT $slot_columns FROM slot ORDER BY queue, n

-- name: get
-- One slot.
SELECT $slot_columns FROM slot WHERE name = :name

-- name: taken
-- The numbers that a queue's slots have.
SELECT n FROM slot WHERE queue = :queue ORDER BY n

-- name: make
-- A new place for a worker.
INSERT INTO slot (name, queue, n, crew, host, status, updated_at) VALUES (:name, :queue, :n, :crew, :host, 'empty', :now)

-- name: want
-- Whether a slot should be filled; its history stays either way.
UPDATE slot SET wanted = :wanted, updated_at = :now WHERE name = :name

-- name: move
-- How a slot stands.
UPDATE slot SET status = :status, worker = :worker, start_at = :start_at, updated_at = :now WHERE name = :name

-- name: remember
-- The history of its restarts.
UPDATE slot SET restarts = :restarts, lifetime = :lifetime, failed_at = :failed_at, failure_reason = :failure_reason,
    updated_at = :now
WHERE name = :name

-- name: forget
-- Remove a slot with its history.
DELETE FROM slot WHERE name = :name RETURNING name
