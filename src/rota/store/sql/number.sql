-- name: draw
-- Draw numbers that only grow; the answer is the last one drawn.
UPDATE number SET value = value + :count WHERE name = :name RETURNING value

-- name: get
-- The last number drawn.
SELECT value FROM number WHERE name = :name

-- name: set
-- Put a cursor somewhere.
UPDATE number SET value = :value WHERE name = :name
