#!/usr/bin/env bash
# Works off a library's own table with a source and two workers, in a folder that is removed afterwards. Needs rota.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rota orchestrator stop >/dev/null 2>&1 || true; rm -rf "$folder"' EXIT
cp "$here/library.py" "$folder" && cd "$folder"

python library.py 200
rota init
rota source check untagged --app library:app --limit 3
rota orchestrator start --app library:app --pool tag=2 --no-http --daemon
until rota source list --json | grep -q '"failed":1'; do sleep 0.2; done
rota source list
rota list
python -c "import sqlite3
left = sqlite3.connect('library.db').execute('SELECT path FROM file WHERE tag IS NULL').fetchall()
print('without a tag:', left)"
