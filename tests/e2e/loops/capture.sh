#!/bin/bash
WORKER_ID=$(tx worker register --name claude-worker --json | jq -r '.id')
mkdir -p .tx/runs
trap 'tx worker deregister "$WORKER_ID"; exit 0' SIGTERM SIGINT

while true; do
  tx worker heartbeat "$WORKER_ID"
  TASK=$(tx ready --limit 1 --json | jq -r '.[0].id')
  [ -z "$TASK" ] && sleep 5 && continue

  tx claim "$TASK" "$WORKER_ID" || continue
  RUN_ID="run-$(openssl rand -hex 4)"

  claude --print --output-format stream-json \
    "Task: $TASK. Run tx show $TASK, implement, tx done $TASK" \
    > ".tx/runs/${RUN_ID}.jsonl" \
    2> ".tx/runs/${RUN_ID}.stderr"

  tx claim:release "$TASK" "$WORKER_ID"
done
