-- name: record
-- Note that a migration was applied.
INSERT INTO migration (number, name, oldest, applied_at) VALUES (:number, :name, :oldest, :now)

-- name: oldest
-- The oldest code that may still work with this database.
SELECT max(oldest) FROM migration
