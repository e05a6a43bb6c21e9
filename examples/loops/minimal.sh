#!/usr/bin/env bash
# The smallest worker: take the best job, run a command for it, report how it went.
#
#     examples/loops/minimal.sh ./model.sh
#
# The command finds ROTA_JOB_ID, ROTA_WORKER_ID and ROTA_CLAIM_TOKEN in its environment, so `rota show` in it needs no
# arguments. Exit code 0 means done. Nobody beats while it runs, so its lease decides how long it may take (`--lease 2h`).
set -uo pipefail

register() { ROTA_WORKER_ID=$(rota worker register --name "${NAME:-minimal}" --json | jq -r .id); }

export ROTA_WORKER_ID ROTA_JOB_ID ROTA_CLAIM_TOKEN
register || exit
trap 'rota worker deregister; exit 0' TERM INT

while true; do
  claimed=$(rota ready --claim "$ROTA_WORKER_ID" --json 2>/dev/null)
  case $? in
    0) ;;
    7) register || exit; continue ;;
    *) rota claim null 2>/dev/null; continue ;; # nothing is ready: this waits up to 5 s for work
  esac
  ROTA_JOB_ID=$(jq -r '.[0].id' <<<"$claimed")
  ROTA_CLAIM_TOKEN=$(jq -r '.[0].claim.token' <<<"$claimed")

  if "$@"; then
    rota done
  else
    rota fail --error "$1 ended with exit code $?"
  fi
done
