#!/bin/bash
for i in {1..3}; do
  (
    WID=$(tx worker register --name "worker-$i" --json | jq -r '.id')
    trap 'tx worker deregister "$WID"; exit 0' SIGTERM SIGINT
    while true; do
      tx worker heartbeat "$WID"
      TASK=$(tx ready --limit 1 --json | jq -r '.[0].id')
      [ -z "$TASK" ] && sleep 5 && continue
      tx claim "$TASK" "$WID" || continue
      claude --print "Task: $TASK. tx show $TASK, implement, tx done $TASK"
      tx claim:release "$TASK" "$WID"
    done
  ) &
done
wait
