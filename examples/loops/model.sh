#!/usr/bin/env bash
# Stands for the model: reads its job, thinks for as many seconds as the payload says, and prints an answer.
set -euo pipefail

job=$(rota show --json)
jq -r '"working on: " + .title' <<<"$job"
sleep "$(jq -r '.payload.seconds // 1' <<<"$job")"
echo "$ROTA_JOB_ID" >>"${LEDGER:-/dev/null}"
echo "finished"
