#!/bin/bash
WORKER_ID=$(tx worker register --name my-worker --json | jq -r '.id')
trap 'tx worker deregister "$WORKER_ID"; exit 0' SIGTERM SIGINT

while true; do
  tx worker heartbeat "$WORKER_ID"
  TASK=$(tx ready --limit 1 --json | jq -r '.[0].id')
  [ -z "$TASK" ] && sleep 5 && continue

  tx claim "$TASK" "$WORKER_ID" || continue

  # YOUR CODE HERE - do whatever you want
  my_llm_script "$TASK"

  tx claim:release "$TASK" "$WORKER_ID"
done
