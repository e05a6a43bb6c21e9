#!/usr/bin/env bash
# A worker of a storm: a loop over the command line, as docs/howto/bash-loops.md has it.
#
#     loop.sh PYTHON QUEUE NAME
#
# It gives its process, so that an orchestrator of this host sees its end; where there is none, its beats decide. It and
# its command are one process group, and are killed together, as a service manager does it.
set -uo pipefail

python=$1 queue=$2 name=$3
rota() { "$python" -m rota "$@" 2>>"$name.log"; }

export ROTA_WORKER_ID ROTA_JOB_ID ROTA_CLAIM_TOKEN ROTA_SLOT=$name
leaving=
trap 'leaving=1' TERM

# The ledger learns of this life, and of its end, from a process that watches this one.
register() {
  ROTA_WORKER_ID=$(rota worker register --name "$name" --queue "$queue" --pid $$) &&
    { "$python" -m rota.lab.chaos.ledger_writer $$ & }
}

# While the store is away the answer is 1: say it again. Refused (5) is an answer.
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
  if "$python" -m rota.lab.chaos.job_command loop <<<"$claimed"; then
    settle done
  else
    settle fail --error "as planned"
  fi
done
until rota worker deregister; do sleep 0.2; done
