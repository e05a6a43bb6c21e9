-- name: draw
-- Draw a number; numbers only grow.
UPDATE number SET value = value + 1 WHERE name = :name RETURNING value

-- name: draw_many
-- Draw job ids or tokens; the rows are ranges of them, each by its first and last.
UPDATE number SET value = value + :count WHERE name = :name RETURNING value - :count + 1, value

-- name: leave_out
-- Skip so many job ids or tokens, which are never drawn.
UPDATE number SET value = value + :count WHERE name = :name RETURNING value

-- name: get
-- The value of a cursor or of a number.
SELECT value FROM number WHERE name = :name

-- name: set
-- Set a cursor.
UPDATE number SET value = :value WHERE name = :name

-- name: last
-- The last job id or token drawn.
SELECT value FROM number WHERE name = :name
