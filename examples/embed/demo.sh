#!/usr/bin/env bash
# Works off a table of texts with two workers that report to the tracking tables. Needs rota[postgres], and a PostgreSQL
# database of its own in ROTA_DB: the table, the schema rota and the schema ai stay in it.
set -euo pipefail
: "${ROTA_DB:?names a PostgreSQL database, such as postgresql://user@localhost/texts}"
cd "$(dirname "${BASH_SOURCE[0]}")"
export DATABASE_URL=$ROTA_DB ROTA_BACKOFF_FIRST=100ms ROTA_HEARTBEAT_INTERVAL=1s
trap 'rota orchestrator stop >/dev/null 2>&1 || true' EXIT

python embed.py make 200
rota tracking install
rota init
rota orchestrator start --app embed:app --pool embed=2 --daemon
until rota source list --json | grep -q '"failed":2'; do sleep 0.2; done
rota orchestrator stop
rota tracking status
python embed.py near "a walk by the sea"
