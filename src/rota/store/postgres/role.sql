-- name: of
-- Whether a role is there.
SELECT 1 FROM pg_roles WHERE rolname = :role
