# shellcheck shell=bash
# One line per step: which one, how long it should take, how long it took. Its noise goes to a log file.

STEP=0
STEPS=0
LOG=$LOGS/$(basename "$0").log
STEP_JOB=

begin() { # begin NUMBER-OF-STEPS
  STEPS=$1
  mkdir -p "$LOGS"
  : >"$LOG"
  trap 'stop_step' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

stop_step() {
  [ -z "$STEP_JOB" ] || kill -- "-$STEP_JOB" 2>/dev/null || true
}

duration() {
  if [ "$1" -lt 120 ]; then echo "$1 s"; else echo "$((($1 + 30) / 60)) min"; fi
}

heading() {
  STEP=$((STEP + 1))
  printf '[%2d/%d] %s' "$STEP" "$STEPS" "$1"
}

skip() { # skip TITLE WHY
  heading "$1"
  printf ': %s\n' "$2"
}

# A function that is called in a condition runs on after a failed command, whatever `set -e` says: hence a job of its own,
# in a process group of its own so that an interrupted build leaves no compiler behind.
step() { # step TITLE EXPECTED-SECONDS COMMAND...
  local title=$1 expected=$2 started=$SECONDS spoken=$SECONDS
  shift 2
  heading "$title"
  printf ' (about %s) ... ' "$(duration "$expected")"
  printf '\n== %s\n' "$title" >>"$LOG"
  set -m
  (
    set +m
    set -euo pipefail
    trap - EXIT INT TERM
    "$@"
  ) >>"$LOG" 2>&1 </dev/null &
  STEP_JOB=$!
  set +m
  while kill -0 "$STEP_JOB" 2>/dev/null; do
    sleep 0.1
    if [ $((SECONDS - spoken)) -ge 30 ]; then
      spoken=$SECONDS
      printf '%s ... ' "$(duration $((SECONDS - started)))"
    fi
  done
  local code=0
  wait "$STEP_JOB" || code=$?
  STEP_JOB=
  if [ "$code" != 0 ]; then
    printf 'FAILED after %s\n' "$(duration $((SECONDS - started)))"
    tail -n 15 "$LOG" | sed 's/^/    /' >&2
    die "$title failed; the whole log is $LOG"
  fi
  printf 'done in %s\n' "$(duration $((SECONDS - started)))"
}
