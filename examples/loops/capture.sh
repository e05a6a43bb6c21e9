#!/usr/bin/env bash
# A worker that keeps what each run printed, and renews its claim while the command runs.
#
#     BEAT=30s examples/loops/capture.sh ./model.sh
#
# Because it beats while it works, two missed beats are enough to see that it died: its job is back long before its lease
# would have ended. SIGTERM lets the job in hand end first. What a run prints is in runs/RUN_ID.out and .err.
set -uo pipefail

BEAT=${BEAT:-30s}
export ROTA_WORKER_ID ROTA_JOB_ID ROTA_CLAIM_TOKEN
mkdir -p runs

register() { ROTA_WORKER_ID=$(rota worker register --name "${NAME:-capture}" --every "$BEAT" --pid $$ --json | jq -r .id); }

# Renew until the claim is lost or the loop itself is gone ($$ is the loop, in here too).
renew() { while sleep "$BEAT" && kill -0 $$ && rota claim:renew >/dev/null; do :; done 2>/dev/null; }

register || exit
trap 'rota worker deregister >/dev/null; exit 0' TERM INT

while true; do
  claimed=$(rota ready --claim "$ROTA_WORKER_ID" --json 2>/dev/null)
  case $? in
    0) ;;
    7) register || exit; continue ;;
    *) sleep 0.5; continue ;; # looking is a beat too, so a short beat needs a short sleep
  esac
  ROTA_JOB_ID=$(jq -r '.[0].id' <<<"$claimed")
  ROTA_CLAIM_TOKEN=$(jq -r '.[0].claim.token' <<<"$claimed")
  run=$(jq -r '.[0].run_id' <<<"$claimed")

  renew &
  renewing=$!
  "$@" >"runs/$run.out" 2>"runs/$run.err"
  code=$?
  kill "$renewing"
  wait "$renewing" 2>/dev/null

  # Both carry the claim's token: if the job was given to someone else meanwhile, they are refused (exit code 5).
  if [[ $code == 0 ]]; then
    rota done >/dev/null
  else
    rota fail --error "exit code $code: $(tail -c 200 "runs/$run.err")" >/dev/null
  fi
done
