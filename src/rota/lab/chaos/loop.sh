#!/usr/bin/env bash
# A worker of a storm: a loop over the command line, as docs/howto/bash-loops.md describes it.
#
#     loop.sh PYTHON QUEUE NAME
#
# It registers with its PID, so that an orchestrator on this host notices its end; without one, its heartbeats decide. It
# and its command are one process group and are killed together, as a service manager would do it.
set -uo pipefail

python=$1 queue=$2 name=$3
rota() { "$python" -m rota "$@" 2>>"$name.log"; }

export ROTA_WORKER_ID ROTA_JOB_ID ROTA_CLAIM_TOKEN ROTA_SLOT=$name
leaving=
trap 'leaving=1' TERM

# A process that watches this one tells the ledger when it is up and when it ends.
register() {
  ROTA_WORKER_ID=$(rota worker register --name "$name" --queue "$queue" --pid $$) &&
    { "$python" -m rota.lab.chaos.programs life $$ & }
}

# Exit code 1 means that the store is out of reach: try again. 5 is a refusal, and final.
settle() { until rota "$@" >/dev/null || [[ $? == 5 ]]; do sleep 0.2; done; }

until register; do sleep 0.5; done
while [[ -z $leaving ]]; do
  claimed=$(rota ready --queue "$queue" --claim "$ROTA_WORKER_ID" --lease 60s --json)
  case $? in
    0) ;;
    7) until register; do sleep 0.5; done; continue ;;
    *) sleep 0.3; continue ;;
  esac
  [[ $claimed =~ ^\[\{\"id\":\ ?([0-9]+) ]] && ROTA_JOB_ID=${BASH_REMATCH[1]}
  [[ $claimed =~ \"token\":\ ?([0-9]+) ]] && ROTA_CLAIM_TOKEN=${BASH_REMATCH[1]}
  if "$python" -m rota.lab.chaos.programs job loop <<<"$claimed"; then
    settle done
  else
    settle fail --error "as planned"
  fi
done
until rota worker deregister; do sleep 0.2; done
