#!/usr/bin/env bash
# Plays the whole of it in a new folder: a task list is worked off, a review sends work back, a budget parks a task, and a
# person lets it go on.
set -euo pipefail
here=$(cd -P "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/rota-agents.XXXXXX")
cd "$folder"
unset ROTA_DB
export PYTHONPATH=$here ROTA_BACKOFF_FIRST=100ms
trap 'rota orchestrator stop >/dev/null 2>&1 || true' EXIT

cp "$here/tasks.toml" .
rota init --db .rota.db >/dev/null
export ROTA_DB=$folder/.rota.db
python "$here/team.py" tasks.toml
rota orchestrator start --app team:app --pool agents=2 --no-http --daemon

until rota list --status failed --json | grep -q '"error":"parked'; do sleep 0.2; done
rota wait 6 --for done --timeout 60s >/dev/null
parked=$(rota list --status failed --json | jq '.[0].id')
echo "--- job $parked is parked, and what needs it waits:"
rota why "$parked"
rota why 10

echo "--- a person gives it more:"
sed -i 's/^units = 300/units = 600/' tasks.toml
rota retry "$parked"
rota wait $(seq 12) --for done --timeout 60s >/dev/null
rota list
echo "--- how the review of the parser went:"
rota runs 3
rota orchestrator stop
echo "Everything is done; the work and the ledgers are in $folder/work."
