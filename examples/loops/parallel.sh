#!/usr/bin/env bash
# Several workers at once, each a process of its own; SIGTERM reaches all of them and waits.
#
#     WORKERS=3 examples/loops/parallel.sh ./model.sh
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

loops=()
for ((n = 1; n <= ${WORKERS:-3}; n++)); do
  NAME=worker-$n "$here/capture.sh" "$@" &
  loops+=($!)
done
trap 'kill -TERM "${loops[@]}" 2>/dev/null' TERM INT

# A signal interrupts `wait`; go on until every loop has left.
while wait; [[ -n $(jobs -rp) ]]; do :; done
