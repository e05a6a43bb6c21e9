#!/usr/bin/env bash
# Three bash workers share eight jobs; one of them is killed, and its job comes back. Needs rota and jq on PATH.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
JOBS=8 PATIENCE=60 KILLED="" RECOVERED=""

say() { printf '%s\n' "$@"; }
clock() { printf '%d' "$((${EPOCHREALTIME/[.,]/} / 1000))"; }

fill_queue() {
  rota add "Collect the recordings" --payload '{"seconds": 0.2}'
  for name in alto bass cello drums; do
    rota add "Tag $name.wav" --after 1 --payload '{"seconds": 2}'
  done
  rota add "Write the report" --after 2 --after 3 --after 4 --after 5 --payload '{"seconds": 0.2}'
  rota add "Answer the listener" --priority 10 --payload '{"seconds": 0.5}'
  rota add "Tidy the shelves" --priority -5 --payload '{"seconds": 0.2}'
}

# Each worker leads a process group of its own, so that a kill takes the loop and all it runs, as a crash would.
start_workers() {
  set -m
  for name in anna ben cleo; do
    NAME=$name BEAT=1s "$here/capture.sh" "$here/model.sh" >"$name.log" 2>&1 &
    groups+=($!)
  done
  rota events --follow --json --after 0 2>/dev/null | tell &
  groups+=("$(jobs -p %%)")
  disown -a # so that bash says nothing when one of them is killed
  set +m
}

# The event log as one line per move of a job or a worker, with the workers' names.
tell() {
  jq --unbuffered -nr --argjson start "$started" '
    def line($names): ((.timestamp - $start) / 100 | floor) as $tenths
      | "\($tenths / 10 | floor).\($tenths % 10) s" as $at | ("        " + $at)[-8:] as $at
      | if .job.status and .job.verb != "add" and .job.verb != "renew" then
          "\($at)  job \(.job.id) \(.job.verb): \(.job.status)" + (if .job.worker then ", \($names[.job.worker])" else "" end)
        elif .worker.verb then
          "\($at)  \(.worker.name) \(.worker.verb)" + (if .worker.text then ": \(.worker.text)" else "" end)
        else empty end;
    foreach inputs as $event ({};
      if $event.worker then .[$event.worker.worker_id] = $event.worker.name else . end;
      . as $names | $event | line($names))'
}

# Print a job that someone holds and has renewed since claiming it: "JOB WORKER PID".
find_victim() {
  jq -nr --argjson jobs "$(rota list --status active --json)" --argjson workers "$(rota worker list --json)" '
    [$jobs[] as $job | $workers[] | select(.id == $job.worker_id and .last_heartbeat_at > $job.started_at)
      | select($job.title | startswith("Tag")) | "\($job.id) \(.id) \(.pid)"][0] // empty'
}

# Kill whoever holds such a job, and see how soon another worker has it.
kill_one() {
  local job="" worker pid killed_at
  while [[ -z $job ]]; do
    out_of_time && return
    read -r job worker pid < <(find_victim)
  done
  kill -KILL -- "-$pid" || return
  killed_at=$(clock) KILLED=$job
  say "          --- SIGKILL to $worker, which held job $job"
  until rota show "$job" --json | jq -e --arg dead "$worker" '.worker_id and .worker_id != $dead' >/dev/null; do
    out_of_time && return
    sleep 0.1
  done
  RECOVERED=$(($(clock) - killed_at))
  say "          --- job $job runs again after $RECOVERED ms; its lease would have lasted 30 minutes"
}

out_of_time() { ((SECONDS > PATIENCE)); }

stop_workers() {
  local group
  for group in "${groups[@]}"; do kill -TERM -- "-$group" 2>/dev/null; done
  for group in "${groups[@]}"; do while kill -0 -- "-$group" 2>/dev/null; do sleep 0.1; done; done
  groups=()
}

# Whether every job ended well and none was committed twice.
judge() {
  local done_ones twice
  done_ones=$(rota list --status done --json | jq length)
  twice=$(rota list --json | jq -r '.[].id' | while read -r id; do
    rota runs "$id" --json | jq -e '[.[] | select(.status == "completed")] | length > 1' >/dev/null && echo "$id"
  done)
  if [[ $done_ones == "$JOBS" && -z $twice && -n $RECOVERED ]]; then
    say "All $JOBS jobs are done, each committed once; job $KILLED survived its worker."
    return 0
  fi
  say "NOT as promised: $done_ones of $JOBS done, committed twice: ${twice:-none}, recovered: ${RECOVERED:-no}"
  return 1
}

folder=$(mktemp -d "${TMPDIR:-/tmp}/rota-demo.XXXXXX")
cd "$folder" || exit
started=$(clock) groups=()
trap stop_workers EXIT
unset ROTA_DB ROTA_JOB_ID ROTA_WORKER_ID ROTA_CLAIM_TOKEN
rota init || exit
say "" "Eight jobs: four wait for the first, one waits for those four; priorities differ."
fill_queue || exit
say "" "Three bash workers, each beating once a second:"
start_workers
kill_one
rota wait $(seq "$JOBS") --for final --timeout "$((PATIENCE - SECONDS > 1 ? PATIENCE - SECONDS : 1))s" >/dev/null
stop_workers
say "" "What is left behind:"
rota list
say ""
rota queue list
say ""
[[ -z $KILLED ]] || rota runs "$KILLED"
say ""
judge
code=$?
say "The database, the transcripts and the logs are in $folder."
exit $code
