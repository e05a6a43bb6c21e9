-- name: draw
-- Draw a number; numbers only grow.
UPDATE number SET value = value + 1 WHERE name = :name RETURNING value

-- name: draw_many
-- Draw job ids or tokens; the answer is stretches of them, each by its first and last.
UPDATE number SET value = value + :count WHERE name = :name RETURNING value - :count + 1, value

-- name: leave_out
-- Let these job ids or tokens never be drawn.
UPDATE number SET value = value + :count WHERE name = :name RETURNING value

-- name: get
-- The last number drawn.
SELECT value FROM number WHERE name = :name

-- name: set
-- Put a cursor somewhere.
UPDATE number SET value = :value WHERE name = :name

-- name: last
-- The last job id or token drawn.
SELECT value FROM number WHERE name = :name
