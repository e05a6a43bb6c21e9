-- name: insert
-- Insert an access token; of its secret only the hash is kept.
INSERT INTO token (id, name, scopes, hash, created_by, created_at) VALUES (:id, :name, :scopes, :hash, :created_by, :now)

-- name: get
-- One access token with the hash of its secret.
SELECT $token_columns, hash FROM token WHERE id = :id

-- name: all
-- Every access token, oldest first.
SELECT $token_columns FROM token ORDER BY created_at, id

-- name: living
-- Whether a token that was not revoked has this name.
SELECT id FROM token WHERE name = :name AND revoked_at IS NULL

-- name: used
-- Note when a token was used. Only people read it, so a minute more or less does not matter.
UPDATE token SET last_used_at = :now WHERE id = :id

-- name: revoke
-- Revoke a token.
UPDATE token SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL RETURNING id

-- name: revoked
-- When a token was revoked, if it was.
SELECT revoked_at FROM token WHERE id = :id

-- name: bind
-- Note that a token registered a worker and so speaks for it.
UPDATE worker SET access = :token WHERE id = :worker

-- name: of_worker
-- The token that registered a worker.
SELECT access FROM worker WHERE id = :worker
