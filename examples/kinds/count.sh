#!/usr/bin/env bash
# Count the words of a file. The job comes on stdin, its path as an argument:
#   rota worker exec --queue count -- bash examples/kinds/count.sh './{payload.path}'
set -euo pipefail

path=$1
attempt=$(($(jq .attempts) + 1)) # stdin is what `rota show --json` prints
echo "job $ROTA_JOB_ID, attempt $attempt: $path" >&2

[ -e "$path" ] || exit 75 # not there yet: try again in a minute
words=$(wc -w < "$path")
rota add "Report $path" --queue report --parent "$ROTA_JOB_ID" > /dev/null
printf '{"path":%s,"words":%d}\n' "$(jq -n --arg path "$path" '$path')" "$words" # the last line is the result
