#!/usr/bin/env bash
# Stands for a model's command line: reads a prompt on stdin, works in the current folder, answers with one JSON document.
# It does the same every time: each note of a review makes one more draft, and the reviewer wants as many as the goal says.
set -euo pipefail

prompt=$(cat)
answer() { printf '{"result": "%s", "units": %d}\n' "$1" "$2"; }

case $AGENT_STAGE in
  plan)
    answer "read, write, check" 40
    ;;
  implement)
    notes=$(grep -c '^note: ' <<<"$prompt" || true)
    echo "draft $((notes + 1))" >answer.txt
    answer "wrote draft $((notes + 1))" 100
    ;;
  review)
    wanted=$(sed -n 's/.*wants \([0-9]*\) drafts.*/\1/p' <<<"$prompt" | head -n 1)
    draft=$(sed 's/draft //' answer.txt)
    if [[ $draft -ge $wanted ]]; then answer "APPROVED" 30; else answer "draft $draft is too rough" 30; fi
    ;;
esac
