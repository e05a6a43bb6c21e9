-- name: record
-- A migration was applied.
INSERT INTO migration (number, name, oldest, applied_at) VALUES (:number, :name, :oldest, :now)

-- name: oldest
-- The oldest code that may still work with this database.
SELECT max(oldest) FROM migration

-- name: all
-- What was applied, in order.
SELECT number, name, oldest, applied_at FROM migration ORDER BY number
